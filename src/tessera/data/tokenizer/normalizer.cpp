#include "tessera/data/tokenizer/normalizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/data/tokenizer/byte_level.h"

namespace tessera::data {
namespace {

/// Rewrites character by character: `map` appends what becomes of one.
template <class Map>
std::string map_characters(std::string_view text, const Map& map) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    map(value, text.substr(i, num_bytes), result);
    i += num_bytes;
  }
  return result;
}

template <class Drop>
std::string without(std::string_view text, const Drop& drop) {
  return map_characters(text, [&](char32_t value, std::string_view character, std::string& result) {
    if (!drop(value)) result.append(character);
  });
}

std::string run_step(const UnicodeNormalizer& step, std::string_view text) { return normalize(text, step.form); }
std::string run_step(const LowercaseNormalizer&, std::string_view text) { return lowercase(text); }
std::string run_step(const StripAccentsNormalizer&, std::string_view text) { return without(text, is_mark); }
std::string run_step(const ReplaceNormalizer& step, std::string_view text) { return step.pattern.replace_all(text, step.content); }
std::string run_step(const PrependNormalizer& step, std::string_view text) { return text.empty() ? std::string() : step.text + std::string(text); }
std::string run_step(const ByteLevelNormalizer&, std::string_view text) { return to_byte_alphabet(text); }
std::string run_step(const PrecompiledNormalizer& step, std::string_view text) { return step.charsmap.normalize(text); }

std::string run_step(const StripNormalizer& step, std::string_view text) {
  std::size_t first = text.size();
  std::size_t last = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    if (!is_white_space(value)) {
      first = std::min(first, i);
      last = i + num_bytes;
    }
    i += num_bytes;
  }
  if (last == 0) return step.left || step.right ? std::string() : std::string(text);
  const std::size_t begin = step.left ? first : 0;
  return std::string(text.substr(begin, (step.right ? last : text.size()) - begin));
}

/// The control characters and spaces of the NMT rules that SentencePiece's "nmt_nfkc" begins with.
std::string run_step(const NmtNormalizer&, std::string_view text) {
  const auto dropped = [](char32_t c) {
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  };
  const auto spaced = [](char32_t c) {
    return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
  };
  return map_characters(text, [&](char32_t value, std::string_view character, std::string& result) {
    if (!dropped(value)) result.append(spaced(value) ? std::string_view(" ") : character);
  });
}

std::string clean_text(std::string_view text) {
  return map_characters(text, [](char32_t value, std::string_view character, std::string& result) {
    const bool line_or_tab = value == '\t' || value == '\n' || value == '\r';
    if (!line_or_tab && (value == 0 || value == 0xFFFD || is_control_or_format(value))) return;
    result.append(line_or_tab || is_white_space(value) ? std::string_view(" ") : character);
  });
}

std::string space_chinese(std::string_view text) {
  return map_characters(text, [](char32_t value, std::string_view character, std::string& result) {
    if (is_chinese_character(value))
      result.append(" ").append(character).append(" ");
    else
      result.append(character);
  });
}

std::string run_step(const BertNormalizer& step, std::string_view input) {
  std::string text(input);
  if (step.clean_text) text = clean_text(text);
  if (step.handle_chinese_chars) text = space_chinese(text);
  if (step.strip_accents) text = without(normalize(text, NormalizationForm::Nfd), is_nonspacing_mark);
  return step.lowercase ? lowercase(text) : text;
}

NormalizerStep parse_bert(const JsonSection& section) {
  const bool lowercase = section.boolean_or("lowercase", true);
  return BertNormalizer{section.boolean_or("clean_text", true), section.boolean_or("handle_chinese_chars", true),
                        section.boolean_or("strip_accents", lowercase), lowercase};
}

NormalizerStep parse_step(const JsonSection& section) {
  const std::string type = section.string("type");
  if (type == "NFC") return UnicodeNormalizer{NormalizationForm::Nfc};
  if (type == "NFD") return UnicodeNormalizer{NormalizationForm::Nfd};
  if (type == "NFKC") return UnicodeNormalizer{NormalizationForm::Nfkc};
  if (type == "NFKD") return UnicodeNormalizer{NormalizationForm::Nfkd};
  if (type == "Lowercase") return LowercaseNormalizer{};
  if (type == "StripAccents") return StripAccentsNormalizer{};
  if (type == "Strip") return StripNormalizer{section.boolean_or("strip_left", true), section.boolean_or("strip_right", true)};
  if (type == "Replace") return ReplaceNormalizer{parse_pattern(section), section.string("content")};
  if (type == "Prepend") return PrependNormalizer{section.string("prepend")};
  if (type == "BertNormalizer") return parse_bert(section);
  if (type == "ByteLevel") return ByteLevelNormalizer{};
  if (type == "Nmt") return NmtNormalizer{};
  if (type == "Precompiled") return PrecompiledNormalizer{parse_charsmap(section.string_or("precompiled_charsmap", ""), section.where())};
  section.not_supported(fmt::format("the normalizer \"{}\"", type));
}

}  // namespace

std::vector<NormalizerStep> parse_normalizer(const Json& json, const std::string& where) {
  std::vector<NormalizerStep> steps;
  for (const JsonSection& section : flatten_sequence(json, where, "normalizer", "normalizers")) steps.push_back(parse_step(section));
  return steps;
}

bool keep_beginnings(const std::vector<NormalizerStep>& steps) {
  return std::ranges::all_of(steps, [](const NormalizerStep& step) { return std::holds_alternative<UnicodeNormalizer>(step); });
}

std::string apply_normalizer(const std::vector<NormalizerStep>& steps, std::string text) {
  for (const NormalizerStep& step : steps) text = std::visit([&](const auto& kind) { return run_step(kind, text); }, step);
  return text;
}

}  // namespace tessera::data
