#pragma once

#include <string>
#include <string_view>

#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {

/// Reads a Hugging Face tokenizer.json. `truncation` and `padding` are the data pipeline's business and ignored. UserError starting with `where`.
TokenizerDefinition parse_tokenizer_json(std::string_view text, const std::string& where);

/// The tokenizer.json of a definition; Hugging Face's library and parse_tokenizer_json read the same tokenizer back.
std::string tokenizer_json(const TokenizerDefinition& definition);

/// Fields of one added token, in the form they have in tokenizer.json ("id" included) and in tokenizer_config.json's added_tokens_decoder.
AddedToken parse_added_token(const Json& json, TokenId id, const std::string& where, const std::string& path);

}  // namespace tessera::data
