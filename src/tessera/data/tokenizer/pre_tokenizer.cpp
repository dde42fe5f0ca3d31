#include "tessera/data/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

using Piece = PreTokenized::Piece;

constexpr const char* kByteLevelPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// tokenizers matches this one with Rust's regex, whose \w also holds the two joiners.
constexpr const char* kWhitespacePattern = R"([\w\u200C\u200D]+|[^\w\s\u200C\u200D]+)";

/// Replaces every piece by what `cut(text of the piece, emit)` emits, as ranges within the piece.
template <class Cut>
void cut_pieces(PreTokenized& words, const Cut& cut) {
  std::vector<Piece> pieces;
  pieces.reserve(words.pieces.size());
  for (const Piece& piece : words.pieces)
    cut(std::string_view(words.text).substr(piece.begin, piece.end - piece.begin), [&](std::size_t begin, std::size_t end) {
      if (begin < end) pieces.push_back({piece.begin + begin, piece.begin + end});
    });
  words.pieces = std::move(pieces);
}

/// Rewrites every piece with `rewrite(text of the piece, whether it is the first, output)`.
template <class Rewrite>
void rewrite_pieces(PreTokenized& words, const Rewrite& rewrite) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 2);
  bool first = words.starts_input;
  for (Piece& piece : words.pieces) {
    const std::size_t begin = text.size();
    rewrite(std::string_view(words.text).substr(piece.begin, piece.end - piece.begin), first, text);
    piece = {begin, text.size()};
    first = false;
  }
  words.text = std::move(text);
}

/// The matches of a pattern and what lies between them.
std::vector<Span> spans_of(const TextPattern& pattern, std::string_view text, bool invert) {
  std::vector<Span> spans;
  std::size_t previous = 0;
  pattern.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    if (previous != begin) spans.push_back({previous, begin, invert});
    spans.push_back({begin, end, !invert});
    previous = end;
  });
  if (previous != text.size()) spans.push_back({previous, text.size(), invert});
  return spans;
}

void run_step(const ByteLevelPreTokenizer& step, PreTokenized& words) {
  if (step.add_prefix_space)
    rewrite_pieces(words, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out.push_back(' ');
      out.append(piece);
    });
  if (step.pattern != nullptr)
    cut_pieces(words, [&](std::string_view piece, const auto& emit) {
      std::size_t previous = 0;
      step.pattern->for_each_match(piece, [&](std::size_t begin, std::size_t end) {
        emit(previous, begin);
        emit(begin, end);
        previous = end;
      });
      emit(previous, piece.size());
    });
  if (step.to_alphabet) rewrite_pieces(words, [](std::string_view piece, bool, std::string& out) { out.append(to_byte_alphabet(piece)); });
}

void run_step(const SplitPreTokenizer& step, PreTokenized& words) {
  cut_pieces(words, [&](std::string_view piece, const auto& emit) {
    for (const Span& span : split_spans(spans_of(*step.pattern, piece, step.invert), step.behavior)) emit(span.begin, span.end);
  });
}

void run_step(const CharacterSplitPreTokenizer& step, PreTokenized& words) {
  const auto is_delimiter = [&](char32_t value) { return step.is_delimiter != nullptr ? step.is_delimiter(value) : value == step.delimiter; };
  std::vector<Span> spans;
  cut_pieces(words, [&](std::string_view piece, const auto& emit) {
    spans.clear();
    for (std::size_t i = 0; i < piece.size();) {
      const auto [value, num_bytes] = code_point_at(piece, i);
      const bool matched = is_delimiter(value);
      if (!matched && !spans.empty() && !spans.back().matched)
        spans.back().end = i + num_bytes;
      else
        spans.push_back({i, i + num_bytes, matched});
      i += num_bytes;
    }
    for (const Span& span : split_spans(spans, step.behavior)) emit(span.begin, span.end);
  });
}

void run_step(const MetaspacePreTokenizer& step, PreTokenized& words) {
  const TextPattern space(std::string(" "));
  rewrite_pieces(words, [&](std::string_view piece, bool first, std::string& out) {
    const std::string replaced = space.replace_all(piece, step.replacement);
    const bool wanted = step.prepend_scheme == PrependScheme::Always || (step.prepend_scheme == PrependScheme::First && first);
    if (wanted && !replaced.starts_with(step.replacement)) out.append(step.replacement);
    out.append(replaced);
  });
  if (step.split) run_step(SplitPreTokenizer{std::make_shared<TextPattern>(step.replacement), SplitBehavior::MergedWithNext, false}, words);
}

/// tokenizers starts a piece where the script changes; a leading space, which has no script, opens no piece and is lost.
void run_step(const UnicodeScriptsPreTokenizer&, PreTokenized& words) {
  constexpr int kAny = -1;
  cut_pieces(words, [](std::string_view piece, const auto& emit) {
    std::optional<int> last;
    std::optional<std::size_t> start;
    for (std::size_t i = 0; i < piece.size();) {
      const auto [value, num_bytes] = code_point_at(piece, i);
      const int script = script_of(value);
      if (script != kAny && last != script) {
        if (start) emit(*start, i);
        start = i;
      }
      if (script != kAny) last = script;
      i += num_bytes;
    }
    if (start) emit(*start, piece.size());
  });
}

void run_step(const FixedLengthPreTokenizer& step, PreTokenized& words) {
  cut_pieces(words, [&](std::string_view piece, const auto& emit) {
    std::size_t begin = 0;
    std::size_t num_characters = 0;
    for (std::size_t i = 0; i < piece.size();) {
      i += code_point_at(piece, i).num_bytes;
      if (++num_characters % step.length != 0) continue;
      emit(begin, i);
      begin = i;
    }
    emit(begin, piece.size());
  });
}

constexpr std::string_view kMark = "\u2581";

/// The next place, after `from`, where a run of marks begins that is not the text's beginning; the text's size when there is none.
std::size_t next_run(std::string_view text, std::size_t from) {
  std::size_t at = text.find(kMark, from);
  while (at != std::string_view::npos && (at == 0 || text.substr(0, at).ends_with(kMark))) at = text.find(kMark, at + kMark.size());
  return std::min(at, text.size());
}

void run_step(const MarkPreTokenizer&, PreTokenized& words) {
  cut_pieces(words, [](std::string_view piece, const auto& emit) {
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = next_run(piece, begin + 1);
      emit(begin, end);
      begin = end;
    }
  });
}

PreTokenizerStep byte_level(const JsonSection& section) {
  const bool use_regex = section.boolean_or("use_regex", true);
  return ByteLevelPreTokenizer{
      section.boolean_or("add_prefix_space", true),
      use_regex ? std::make_shared<const Regex>(translate_oniguruma(kByteLevelPattern, section.where()), section.where()) : nullptr};
}

PreTokenizerStep whitespace(const JsonSection& section) {
  Regex pattern(translate_oniguruma(kWhitespacePattern, section.where()), section.where());
  return SplitPreTokenizer{std::make_shared<const TextPattern>(std::move(pattern)), SplitBehavior::Removed, true};
}

PreTokenizerStep char_delimiter(const JsonSection& section) {
  const std::string delimiter = section.string("delimiter");
  if (delimiter.empty() || code_point_at(delimiter, 0).num_bytes != delimiter.size()) section.fail("\"delimiter\" must be one character");
  return CharacterSplitPreTokenizer{nullptr, code_point_at(delimiter, 0).value, SplitBehavior::Removed};
}

PreTokenizerStep metaspace(const JsonSection& section) {
  return MetaspacePreTokenizer{section.string_or("replacement", "\u2581"), parse_prepend_scheme(section), section.boolean_or("split", true)};
}

PreTokenizerStep fixed_length(const JsonSection& section) {
  const std::uint64_t length = section.integer("length").value_or(5);
  if (length == 0) section.fail("\"length\" must be positive");
  return FixedLengthPreTokenizer{length};
}

void add_step(const JsonSection& section, std::vector<PreTokenizerStep>& steps) {
  const std::string type = section.string("type");
  const auto characters = [](bool (*is_delimiter)(char32_t), SplitBehavior behavior) {
    return CharacterSplitPreTokenizer{is_delimiter, 0, behavior};
  };
  if (type == "ByteLevel") return steps.push_back(byte_level(section));
  if (type == "Split")
    return steps.push_back(SplitPreTokenizer{std::make_shared<const TextPattern>(parse_pattern(section)),
                                             parse_behavior(section, SplitBehavior::Isolated), section.boolean_or("invert", false)});
  if (type == "Digits")
    return steps.push_back(
        characters(is_numeric, section.boolean_or("individual_digits", false) ? SplitBehavior::Isolated : SplitBehavior::Contiguous));
  if (type == "Punctuation") return steps.push_back(characters(is_punctuation, parse_behavior(section, SplitBehavior::Isolated)));
  if (type == "Metaspace") return steps.push_back(metaspace(section));
  if (type == "Whitespace") return steps.push_back(whitespace(section));
  if (type == "WhitespaceSplit") return steps.push_back(characters(is_white_space, SplitBehavior::Removed));
  if (type == "CharDelimiterSplit") return steps.push_back(char_delimiter(section));
  if (type == "UnicodeScripts") return steps.push_back(UnicodeScriptsPreTokenizer{});
  if (type == "FixedLength") return steps.push_back(fixed_length(section));
  if (type != "BertPreTokenizer") section.not_supported(fmt::format("the pre-tokenizer \"{}\"", type));
  steps.push_back(characters(is_white_space, SplitBehavior::Removed));
  steps.push_back(characters(is_punctuation, SplitBehavior::Isolated));
}

}  // namespace

bool crosses_mark(std::string_view token) { return next_run(token, 0) < token.size(); }

const Regex* sole_pattern(const std::vector<PreTokenizerStep>& steps) {
  const auto* last = steps.empty() ? nullptr : std::get_if<ByteLevelPreTokenizer>(&steps.back());
  if (last == nullptr || last->add_prefix_space) return nullptr;
  if (steps.size() == 1) return last->pattern.get();
  const auto* split = std::get_if<SplitPreTokenizer>(&steps.front());
  const bool alone = steps.size() == 2 && split != nullptr && last->pattern == nullptr;
  return alone && split->behavior == SplitBehavior::Isolated ? split->pattern->regex() : nullptr;
}

PrependScheme parse_prepend_scheme(const JsonSection& section) {
  const std::string scheme = section.string_or("prepend_scheme", section.boolean_or("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always") return PrependScheme::Always;
  if (scheme == "first") return PrependScheme::First;
  if (scheme == "never") return PrependScheme::Never;
  section.fail(fmt::format("unknown prepend_scheme \"{}\"", scheme), "always, first or never");
}

std::vector<PreTokenizerStep> parse_pre_tokenizer(const Json& json, const std::string& where) {
  std::vector<PreTokenizerStep> steps;
  for (const JsonSection& section : flatten_sequence(json, where, "pre_tokenizer", "pretokenizers")) add_step(section, steps);
  return steps;
}

void apply_pre_tokenizer(const std::vector<PreTokenizerStep>& steps, PreTokenized& words) {
  for (const PreTokenizerStep& step : steps) std::visit([&](const auto& kind) { run_step(kind, words); }, step);
}

}  // namespace tessera::data
