#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/text_pattern.h"

/// tokenizer.json's pre-tokenizers: steps that cut a normalized text into the words the model sees.
namespace tessera::data {

/// A text and the pieces it is cut into, which lie in order, do not overlap, and are not empty. Some steps rewrite the text.
struct PreTokenized {
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };
  std::string text;
  std::vector<Piece> pieces;
  bool starts_input = true;  ///< the first piece is where the whole input begins: no added token stands before it
};

struct ByteLevelPreTokenizer {
  bool add_prefix_space;
  std::shared_ptr<const Regex> pattern;  ///< GPT-2's; null with use_regex false
  bool to_alphabet = true;               ///< false leaves the bytes as they are, for a model that reads bytes
};
struct SplitPreTokenizer {
  std::shared_ptr<const TextPattern> pattern;
  SplitBehavior behavior;
  bool invert;
};
/// Splits at the characters of a class: Digits, Punctuation, WhitespaceSplit, CharDelimiterSplit, and both halves of BertPreTokenizer.
struct CharacterSplitPreTokenizer {
  bool (*is_delimiter)(char32_t value);
  char32_t delimiter;  ///< when is_delimiter is null
  SplitBehavior behavior;
};
enum class PrependScheme { Always, First, Never };
struct MetaspacePreTokenizer {
  std::string replacement;
  PrependScheme prepend_scheme;
  bool split;
};
struct UnicodeScriptsPreTokenizer {};
struct FixedLengthPreTokenizer {
  std::size_t length;  ///< in characters
};

/// Not of tokenizer.json: cuts before every run of U+2581. Words become short, and nothing changes when no token of the model reaches across such a
/// place (crosses_mark).
struct MarkPreTokenizer {};

using PreTokenizerStep = std::variant<ByteLevelPreTokenizer, SplitPreTokenizer, CharacterSplitPreTokenizer, MetaspacePreTokenizer,
                                      UnicodeScriptsPreTokenizer, FixedLengthPreTokenizer, MarkPreTokenizer>;

/// The steps of the "pre_tokenizer" section, sequences flattened. UserError on a type that is unknown or fields that make no sense.
std::vector<PreTokenizerStep> parse_pre_tokenizer(const Json& json, const std::string& where);
/// `words` holds one piece, the whole normalized text (valid UTF-8), when the first step begins.
void apply_pre_tokenizer(const std::vector<PreTokenizerStep>& steps, PreTokenized& words);

/// The pattern whose matches, and what lies between them, are the words, when that is all the steps do but for the byte alphabet; otherwise null.
const Regex* sole_pattern(const std::vector<PreTokenizerStep>& steps);

/// Whether U+2581 follows another character within the token.
bool crosses_mark(std::string_view token);

/// "always", "first" or "never", from prepend_scheme or the older add_prefix_space.
PrependScheme parse_prepend_scheme(const JsonSection& section);

}  // namespace tessera::data
