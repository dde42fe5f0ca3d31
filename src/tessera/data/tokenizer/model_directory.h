#pragma once

#include <filesystem>

#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {

/// Adds what a Hugging Face directory says besides the tokenizer itself: added and special tokens of tokenizer_config.json, special_tokens_map.json
/// and added_tokens.json, the chat template (chat_template.jinja, chat_template.json or tokenizer_config.json), and the end-of-generation ids of
/// generation_config.json and config.json. For Llama's tokenizer classes add_bos_token and add_eos_token decide what encode puts around a text.
/// Files that are absent are passed over; UserError for those that are broken.
void add_model_directory(const std::filesystem::path& directory, TokenizerDefinition& definition);

/// tokenizer_config.json of the directory, an empty object without one.
Json read_tokenizer_config(const std::filesystem::path& directory);

}  // namespace tessera::data
