#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/charsmap.h"
#include "tessera/data/tokenizer/text_pattern.h"
#include "tessera/data/tokenizer/unicode.h"

/// tokenizer.json's normalizers: steps that rewrite a text before it is split.
namespace tessera::data {

struct UnicodeNormalizer {
  NormalizationForm form;
};
struct LowercaseNormalizer {};
struct StripAccentsNormalizer {};
struct StripNormalizer {
  bool left;
  bool right;
};
struct ReplaceNormalizer {
  TextPattern pattern;
  std::string content;
};
struct PrependNormalizer {
  std::string text;  ///< put before a text that is not empty
};
struct BertNormalizer {
  bool clean_text;
  bool handle_chinese_chars;
  bool strip_accents;
  bool lowercase;
};
struct ByteLevelNormalizer {};
struct NmtNormalizer {};
struct PrecompiledNormalizer {
  Charsmap charsmap;
};

using NormalizerStep = std::variant<UnicodeNormalizer, LowercaseNormalizer, StripAccentsNormalizer, StripNormalizer, ReplaceNormalizer,
                                    PrependNormalizer, BertNormalizer, ByteLevelNormalizer, NmtNormalizer, PrecompiledNormalizer>;

/// The steps of the "normalizer" section, sequences flattened. UserError on a type that is unknown or fields that make no sense.
std::vector<NormalizerStep> parse_normalizer(const Json& json, const std::string& where);
/// Whether every prefix of a text that these steps do not change is not changed by them either, as with Unicode's normal forms.
bool keep_beginnings(const std::vector<NormalizerStep>& steps);
/// `text` must be valid UTF-8; so is the result.
std::string apply_normalizer(const std::vector<NormalizerStep>& steps, std::string text);

}  // namespace tessera::data
