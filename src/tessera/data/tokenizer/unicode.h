#pragma once

#include <string>
#include <string_view>
#include <vector>

/// UTF-8 and the Unicode properties tokenizers ask for. Properties and normalization forms are those of the ICU Tessera is built with.
namespace tessera::data {

/// One character and its length in bytes.
struct CodePoint {
  char32_t value;
  std::size_t num_bytes;
};

/// The character at `position`; the text must be valid UTF-8 and the position a character's start.
CodePoint code_point_at(std::string_view text, std::size_t position);
void append_utf8(std::string& text, char32_t value);
/// Valid UTF-8: every maximal invalid part becomes one U+FFFD, as in the Unicode standard's recommended practice.
std::string replace_invalid_utf8(std::string_view bytes);

enum class NormalizationForm { Nfc, Nfd, Nfkc, Nfkd };
std::string normalize(std::string_view text, NormalizationForm form);
/// Full lower case of every character by itself (no context, root locale).
std::string lowercase(std::string_view text);

bool is_white_space(char32_t value);        ///< property White_Space
bool is_numeric(char32_t value);            ///< category N
bool is_punctuation(char32_t value);        ///< category P as of Unicode 8, or ASCII punctuation and symbols
bool is_control_or_format(char32_t value);  ///< categories Cc, Cf, Cs, Co as of Unicode 8
bool is_nonspacing_mark(char32_t value);    ///< category Mn as of Unicode 8
bool is_mark(char32_t value);               ///< category M as of Unicode 9
bool is_word_character(char32_t value);     ///< what \w matches: Alphabetic, M, Nd, Pc
bool is_chinese_character(char32_t value);  ///< the CJK ideograph blocks, as BERT lists them
/// What Python's repr writes as it is: no control, format, unassigned or private character and no separator but the space.
bool is_printable(char32_t value);
bool is_letter(char32_t value);                ///< category L
bool is_decimal_digit(char32_t value);         ///< category Nd
std::string uppercase(std::string_view text);  ///< full upper case of every character by itself
/// Where user-perceived characters (extended grapheme clusters) end, in bytes; the last entry is the text's size.
std::vector<std::size_t> grapheme_ends(std::string_view text);
/// The script as of Unicode 9, with Hiragana, Katakana and the prolonged sound mark counted as Han; -1 for the space, for later
/// characters and for those of no script, which fit any.
int script_of(char32_t value);

}  // namespace tessera::data
