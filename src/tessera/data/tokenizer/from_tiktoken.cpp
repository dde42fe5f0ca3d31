#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/logging.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/byte_level_sections.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/merge_rules.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/sources.h"
#include "tessera/formats/tiktoken.h"

namespace tessera::data {
namespace {

using formats::TiktokenToken;

/// Special tokens in the order of their ids, from the first id after the ranks.
std::vector<std::string> llama3_special_tokens() {
  std::vector<std::string> names = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|reserved_special_token_2|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
  for (int i = 3; names.size() < 256; ++i) names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  return names;
}

struct Published {
  Json pre_tokenizer;
  std::vector<std::pair<std::string, TokenId>> special;
  std::string bos;
  std::string eos;
  bool adds_bos = false;
};

std::vector<std::pair<std::string, TokenId>> numbered(const std::vector<std::string>& names, TokenId first) {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (const std::string& name : names) tokens.emplace_back(name, first++);
  return tokens;
}

Published published(std::size_t num_ranks, const std::string& where) {
  switch (num_ranks) {
    case 50256:
      return {byte_level_section(true), {{"<|endoftext|>", 50256}}, "<|endoftext|>", "<|endoftext|>"};
    case 100256:
      return {split_then_bytes(kLlama3Pattern),
              {{"<|endoftext|>", 100257},
               {"<|fim_prefix|>", 100258},
               {"<|fim_middle|>", 100259},
               {"<|fim_suffix|>", 100260},
               {"<|endofprompt|>", 100276}},
              "",
              "<|endoftext|>"};
    case 199998:
      return {split_then_bytes(kO200kPattern), {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}, "", "<|endoftext|>"};
    case 128000:
      return {split_then_bytes(kLlama3Pattern), numbered(llama3_special_tokens(), 128000), "<|begin_of_text|>", "<|end_of_text|>", true};
    case 151643:
      return {split_then_bytes(kQwen2Pattern), numbered({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, 151643), "", "<|endoftext|>"};
    default:
      break;
  }
  log::note("{}: {} ranks are not a published tiktoken vocabulary; text is cut into words as Llama 3 does, and there are no special tokens", where,
            num_ranks);
  return {split_then_bytes(kLlama3Pattern), {}, "", ""};
}

ModelDefinition model_of(const std::vector<TiktokenToken>& source) {
  ModelDefinition model;
  std::vector<RankedToken> tokens;
  for (const TiktokenToken& token : source) {
    const auto index = static_cast<std::size_t>(token.rank);
    if (index >= model.tokens.size()) model.tokens.resize(index + 1);
    model.tokens[index] = to_byte_alphabet(token.bytes);
    tokens.push_back({token.bytes, static_cast<TokenId>(token.rank), static_cast<std::uint32_t>(token.rank)});
  }
  model.merges = merges_of_concatenations(tokens);
  model.ignore_merges = true;
  return model;
}

}  // namespace

TokenizerDefinition from_tiktoken(std::string_view text, const std::string& where) {
  const std::vector<TiktokenToken> source = formats::parse_tiktoken(text, where);
  const Published known = published(source.size(), where);
  TokenizerDefinition definition;
  definition.where = where;
  definition.model = model_of(source);
  definition.pre_tokenizer = known.pre_tokenizer;
  definition.decoder = byte_level_section(true);
  for (const auto& [name, id] : known.special) {
    // In the vocabulary too: that is how tokenizer.json keeps ids that do not follow on from the ranks.
    definition.model.tokens.resize(std::max(definition.model.tokens.size(), static_cast<std::size_t>(id) + 1));
    definition.model.tokens[static_cast<std::size_t>(id)] = name;
    AddedToken token;
    token.id = id;
    token.content = name;
    token.special = true;
    definition.added_tokens.push_back(std::move(token));
    if (name == known.bos) definition.special_tokens.bos = id;
    if (name == known.eos) definition.special_tokens.eos = id;
  }
  if (known.adds_bos) definition.post_processor = template_processing({{known.bos, *definition.special_tokens.bos}}, {});
  return definition;
}

TokenizerDefinition from_vocabulary_and_merges(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt) {
  TokenizerDefinition definition;
  definition.where = vocab_json.string();
  const Json vocabulary = read_json_file(vocab_json);
  const JsonSection section(vocabulary, definition.where, "");
  std::vector<std::string>& tokens = definition.model.tokens;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= 2 * vocabulary.size() + 1024)
      section.fail(fmt::format("\"{}\" has no proper id", token));
    const auto index = id.get<std::size_t>();
    if (index >= tokens.size()) tokens.resize(index + 1);
    tokens[index] = token;
  }
  std::vector<std::string> merges;
  for (std::string& line : split(read_text_file(merges_txt), '\n'))
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(std::move(line));
  definition.model.merges = merges_of_spellings(merges, tokens, merges_txt.string());
  definition.pre_tokenizer = byte_level_section(true);
  definition.decoder = byte_level_section(true);
  return definition;
}

}  // namespace tessera::data
