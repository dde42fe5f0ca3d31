#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/pre_tokenizer.h"

/// tokenizer.json's decoders: steps that turn the spellings of tokens into text.
namespace tessera::data {

struct ByteLevelDecoder {};     ///< all tokens become one text
struct ByteFallbackDecoder {};  ///< runs of "<0x0A>" become characters, or one U+FFFD for each byte when they are not valid UTF-8
struct FuseDecoder {};          ///< all tokens become one
struct ReplaceDecoder {
  std::shared_ptr<const TextPattern> pattern;
  std::string content;
};
struct StripDecoder {
  std::string content;  ///< one character, removed from each token at most `start` times in front and `stop` times at the end
  std::size_t start;
  std::size_t stop;
};
struct MetaspaceDecoder {
  std::string replacement;
  bool drop_in_first;
};
struct WordPieceDecoder {
  std::string prefix;
  bool cleanup;
};
struct BpeDecoder {
  std::string suffix;
};
struct CtcDecoder {
  std::string pad_token;
  std::string word_delimiter;
  bool cleanup;
};

using DecoderStep = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, ReplaceDecoder, StripDecoder, MetaspaceDecoder, WordPieceDecoder,
                                 BpeDecoder, CtcDecoder>;

/// The steps of the "decoder" section, sequences flattened. UserError on a type that is unknown or fields that make no sense.
std::vector<DecoderStep> parse_decoder(const Json& json, const std::string& where);
/// The text of the tokens. Without steps they are joined with spaces.
std::string apply_decoder(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens);

}  // namespace tessera::data
