#include <fmt/format.h>

#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/data/tokenizer/tokenizer_json.h"

namespace tessera::data {
namespace {

OrderedJson special_tokens_map(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  OrderedJson map = OrderedJson::object();
  const auto add = [&](const char* key, const std::optional<TokenId>& id) {
    if (id && tokenizer.token(*id)) map[key] = *tokenizer.token(*id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos);
  add("unk_token", special.unk);
  add("pad_token", special.pad);
  return map;
}

OrderedJson tokenizer_config(const Tokenizer& tokenizer, std::size_t model_max_length) {
  OrderedJson added = OrderedJson::object();
  for (const AddedToken& token : tokenizer.definition().added_tokens)
    added[std::to_string(token.id)] = {{"content", token.content}, {"lstrip", token.lstrip},           {"normalized", token.normalized},
                                       {"rstrip", token.rstrip},   {"single_word", token.single_word}, {"special", token.special}};
  OrderedJson config = {{"added_tokens_decoder", std::move(added)}};
  config.update(special_tokens_map(tokenizer));
  config["clean_up_tokenization_spaces"] = false;
  if (model_max_length > 0) config["model_max_length"] = model_max_length;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (tokenizer.chat_template()) config["chat_template"] = *tokenizer.chat_template();
  return config;
}

}  // namespace

void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& directory, std::size_t model_max_length) {
  const auto operations = posix_file_operations();
  replace_file(*operations, directory / "tokenizer.json", tokenizer_json(tokenizer.definition()));
  replace_file(*operations, directory / "tokenizer_config.json", tokenizer_config(tokenizer, model_max_length).dump(2) + "\n");
  replace_file(*operations, directory / "special_tokens_map.json", special_tokens_map(tokenizer).dump(2) + "\n");
}

}  // namespace tessera::data
