#include "tessera/data/tokenizer/text_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tessera::data {
namespace {

/// A match joins the piece before it, unless that piece ends in a match already; the rest starts a new piece. `Reverse` reads from the right.
template <bool Reverse>
std::vector<Span> merge_matches(const std::vector<Span>& spans) {
  std::vector<Span> pieces;
  bool previous_matched = false;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[Reverse ? spans.size() - 1 - i : i];
    if (span.matched && !previous_matched && !pieces.empty())
      (Reverse ? pieces.back().begin : pieces.back().end) = Reverse ? span.begin : span.end;
    else
      pieces.push_back(span);
    previous_matched = span.matched;
  }
  if (Reverse) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<Span> merge_equals(const std::vector<Span>& spans) {
  std::vector<Span> pieces;
  for (const Span& span : spans) {
    if (!pieces.empty() && pieces.back().matched == span.matched)
      pieces.back().end = span.end;
    else
      pieces.push_back(span);
  }
  return pieces;
}

std::vector<Span> arrange(const std::vector<Span>& spans, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::Contiguous:
      return merge_equals(spans);
    case SplitBehavior::MergedWithPrevious:
      return merge_matches<false>(spans);
    case SplitBehavior::MergedWithNext:
      return merge_matches<true>(spans);
    case SplitBehavior::Removed:
    case SplitBehavior::Isolated:
      break;
  }
  return spans;
}

}  // namespace

void TextPattern::for_each_match(std::string_view text, const Regex::Take& take) const {
  if (const auto* regex = std::get_if<Regex>(&pattern_)) return regex->for_each_match(text, take);
  const std::string& literal = std::get<std::string>(pattern_);
  if (literal.empty()) return;
  for (std::size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + literal.size())) take(at, at + literal.size());
}

std::string TextPattern::replace_all(std::string_view text, std::string_view replacement) const {
  std::string result;
  std::size_t copied = 0;
  for_each_match(text, [&](std::size_t begin, std::size_t end) {
    result.append(text.substr(copied, begin - copied)).append(replacement);
    copied = end;
  });
  return result.append(text.substr(copied));
}

TextPattern parse_pattern(const JsonSection& section) {
  const JsonSection pattern = section.object("pattern");
  if (pattern.find("String") != nullptr) return TextPattern(pattern.string("String"));
  const std::string where = fmt::format("{}: {}", section.where(), pattern.path());
  return TextPattern(Regex(translate_oniguruma(pattern.string("Regex"), where), where));
}

SplitBehavior parse_behavior(const JsonSection& section, SplitBehavior fallback) {
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{{"Removed", SplitBehavior::Removed},
                                                                                        {"Isolated", SplitBehavior::Isolated},
                                                                                        {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
                                                                                        {"MergedWithNext", SplitBehavior::MergedWithNext},
                                                                                        {"Contiguous", SplitBehavior::Contiguous}}};
  if (section.find("behavior") == nullptr) return fallback;
  const std::string name = section.string("behavior");
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  section.fail(fmt::format("unknown behavior \"{}\"", name), "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

std::vector<Span> split_spans(const std::vector<Span>& spans, SplitBehavior behavior) {
  std::vector<Span> pieces = arrange(spans, behavior);
  std::erase_if(pieces, [behavior](const Span& piece) { return piece.begin == piece.end || (behavior == SplitBehavior::Removed && piece.matched); });
  return pieces;
}

}  // namespace tessera::data
