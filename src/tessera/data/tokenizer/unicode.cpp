#include "tessera/data/tokenizer/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <memory>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::data {
namespace {

/// Length of the well-formed sequence at the start of `bytes`, or of the longest part of one (at least 1), with which of the two it is.
struct Sequence {
  std::size_t num_bytes;
  bool complete;
};

Sequence leading_sequence(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (bytes.size() < 2 || byte(1) < low || byte(1) > high) return {1, false};
  std::size_t i = 2;
  while (i < length && i < bytes.size() && (byte(i) & 0xC0) == 0x80) ++i;
  return {i, i == length};
}

const icu::Normalizer2& normalizer(NormalizationForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* instance = form == NormalizationForm::Nfc    ? icu::Normalizer2::getNFCInstance(status)
                                     : form == NormalizationForm::Nfd  ? icu::Normalizer2::getNFDInstance(status)
                                     : form == NormalizationForm::Nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                                       : icu::Normalizer2::getNFKDInstance(status);
  if (U_FAILURE(status)) throw Failure({"", std::string("ICU has no normalization data: ") + u_errorName(status), "", "install ICU's data"});
  return *instance;
}

/// Below U+0300 nothing composes, below U+00C0 nothing decomposes canonically, below U+00A0 nothing at all.
bool is_certainly_normal(std::string_view text, NormalizationForm form) {
  const unsigned char bound = form == NormalizationForm::Nfc ? 0xCC : form == NormalizationForm::Nfd ? 0xC3 : 0x80;
  return std::none_of(text.begin(), text.end(), [bound](char c) { return static_cast<unsigned char>(c) >= bound; });
}

int category_mask(char32_t value) { return static_cast<int>(U_MASK(u_charType(static_cast<UChar32>(value)))); }

/// The `tokenizers` library takes its classes from tables of old versions; characters assigned later belong to none.
bool is_of_unicode(char32_t value, std::uint8_t version) {
  UVersionInfo age = {};
  u_charAge(static_cast<UChar32>(value), age);
  return age[0] != 0 && age[0] <= version;
}
bool is_of_unicode_8(char32_t value) { return is_of_unicode(value, 8); }

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[position + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

void append_utf8(std::string& text, char32_t value) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (value < 0x80) return add(value);
  if (value < 0x800) {
    add(0xC0 | value >> 6);
  } else {
    if (value < 0x10000) {
      add(0xE0 | value >> 12);
    } else {
      add(0xF0 | value >> 18);
      add(0x80 | (value >> 12 & 0x3F));
    }
    add(0x80 | (value >> 6 & 0x3F));
  }
  add(0x80 | (value & 0x3F));
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid = std::min(first_invalid_utf8(bytes), bytes.size());
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text.append("\xEF\xBF\xBD");
    bytes.remove_prefix(leading_sequence(bytes).num_bytes);
  }
  return text;
}

std::string normalize(std::string_view text, NormalizationForm form) {
  if (is_certainly_normal(text, form)) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  normalizer(form).normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr, status);
  TESSERA_ASSERT(U_SUCCESS(status), u_errorName(status));
  return result;
}

std::string lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    if (value < 0x80) {
      result.push_back(static_cast<char>(value >= 'A' && value <= 'Z' ? value + 32 : value));
    } else {
      icu::UnicodeString one(static_cast<UChar32>(value));
      one.toLower(icu::Locale::getRoot()).toUTF8String(result);
    }
    i += num_bytes;
  }
  return result;
}

bool is_white_space(char32_t value) { return u_isUWhiteSpace(static_cast<UChar32>(value)) != 0; }
bool is_numeric(char32_t value) { return (category_mask(value) & static_cast<int>(U_GC_N_MASK)) != 0; }

bool is_punctuation(char32_t value) {
  if (value < 0x80)
    return (value >= 33 && value <= 47) || (value >= 58 && value <= 64) || (value >= 91 && value <= 96) || (value >= 123 && value <= 126);
  return (category_mask(value) & static_cast<int>(U_GC_P_MASK)) != 0 && is_of_unicode_8(value);
}

bool is_control_or_format(char32_t value) {
  constexpr int kMask = static_cast<int>(U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK);
  return (category_mask(value) & kMask) != 0 && is_of_unicode_8(value);
}

bool is_nonspacing_mark(char32_t value) { return u_charType(static_cast<UChar32>(value)) == U_NON_SPACING_MARK && is_of_unicode_8(value); }
bool is_mark(char32_t value) {
  // Three characters have changed their category since Unicode 9.
  if (value == 0x1CF2 || value == 0x1CF3) return true;
  if (value == 0x111C9) return false;
  return (category_mask(value) & static_cast<int>(U_GC_M_MASK)) != 0 && is_of_unicode(value, 9);
}

bool is_word_character(char32_t value) {
  constexpr int kMask = static_cast<int>(U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK);
  return u_isUAlphabetic(static_cast<UChar32>(value)) != 0 || (category_mask(value) & kMask) != 0;
}

bool is_chinese_character(char32_t value) {
  constexpr std::array<std::array<char32_t, 2>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                               {0x3400, 0x4DBF},
                                                               {0x20000, 0x2A6DF},
                                                               {0x2A700, 0x2B73F},
                                                               {0x2B740, 0x2B81F},
                                                               {0x2B920, 0x2CEAF},
                                                               {0xF900, 0xFAFF},
                                                               {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [value](const auto& block) { return value >= block[0] && value <= block[1]; });
}

bool is_printable(char32_t value) { return value == ' ' || (category_mask(value) & static_cast<int>(U_GC_C_MASK | U_GC_Z_MASK)) == 0; }

bool is_letter(char32_t value) { return (category_mask(value) & static_cast<int>(U_GC_L_MASK)) != 0; }
bool is_decimal_digit(char32_t value) { return (category_mask(value) & static_cast<int>(U_GC_ND_MASK)) != 0; }

std::string uppercase(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    icu::UnicodeString one(static_cast<UChar32>(value));
    one.toUpper(icu::Locale::getRoot()).toUTF8String(result);
    i += num_bytes;
  }
  return result;
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText* source = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
  if (U_FAILURE(status)) throw Failure({"", std::string("ICU cannot find grapheme clusters: ") + u_errorName(status), "", "install ICU's data"});
  const std::unique_ptr<UText, decltype(&utext_close)> close_source(source, utext_close);
  breaks->setText(source, status);
  std::vector<std::size_t> ends;
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) ends.push_back(static_cast<std::size_t>(end));
  return ends;
}

int script_of(char32_t value) {
  constexpr char32_t kProlongedSoundMark = 0x30FC;
  if (value == ' ' || !is_of_unicode(value, 9)) return -1;
  if (value == kProlongedSoundMark) return USCRIPT_HAN;
  // Four characters have changed their script since.
  if (value == 0x0589 || value == 0x061C) return USCRIPT_COMMON;
  if (value == 0x0953 || value == 0x0954) return USCRIPT_DEVANAGARI;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(value), &status);
  if (script == USCRIPT_UNKNOWN) return -1;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

}  // namespace tessera::data
