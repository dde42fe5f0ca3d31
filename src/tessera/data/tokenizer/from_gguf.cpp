#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/data/tokenizer/byte_level_sections.h"
#include "tessera/data/tokenizer/merge_rules.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/sources.h"

namespace tessera::data {
namespace {

using formats::GgufFile;
using formats::SentencePieceAlgorithm;
using formats::SentencePieceModel;
using formats::SentencePieceType;

constexpr const char* kTakeTokenizerJson = "give the model's tokenizer.json in its place, to `tessera convert` with --tokenizer";

/// How llama.cpp's names for pre-tokenizers cut text (llama_vocab::impl::load and llm_tokenizer_bpe in its src/llama-vocab.cpp).
enum class Cut { Gpt2, Digits, Llama3, Qwen2, O200k, Tekken };

struct PreTokenizerName {
  std::string_view name;
  Cut cut;
};
constexpr std::array<PreTokenizerName, 31> kNames = {
    {{"gpt-2", Cut::Gpt2},       {"phi-2", Cut::Gpt2},       {"mpt", Cut::Gpt2},          {"olmo", Cut::Gpt2},
     {"jais", Cut::Gpt2},        {"trillion", Cut::Gpt2},    {"roberta-bpe", Cut::Gpt2},  {"default", Cut::Gpt2},
     {"smollm", Cut::Digits},    {"starcoder", Cut::Digits}, {"refact", Cut::Digits},     {"command-r", Cut::Digits},
     {"codeshell", Cut::Digits}, {"exaone", Cut::Digits},    {"minerva-7b", Cut::Digits}, {"llama3", Cut::Llama3},
     {"llama-v3", Cut::Llama3},  {"llama-bpe", Cut::Llama3}, {"falcon3", Cut::Llama3},    {"lfm2", Cut::Llama3},
     {"dbrx", Cut::Llama3},      {"smaug-bpe", Cut::Llama3}, {"qwen2", Cut::Qwen2},       {"deepseek-r1-qwen", Cut::Qwen2},
     {"stablelm2", Cut::Qwen2},  {"hunyuan", Cut::Qwen2},    {"megrez", Cut::Qwen2},      {"gpt-4o", Cut::O200k},
     {"llama4", Cut::O200k},     {"kanana2", Cut::O200k},    {"tekken", Cut::Tekken}}};

Cut cut_of(const std::string& name, const std::string& where) {
  const auto* known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.name == name; });
  if (known == kNames.end())
    throw UserError({where, fmt::format("the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported yet", name),
                     "it says how text is cut into words", kTakeTokenizerJson});
  if (name == "default") log::note("{}: it does not say how text is cut into words; using GPT-2's way", where);
  return known->cut;
}

Json pre_tokenizer_of(Cut cut) {
  switch (cut) {
    case Cut::Digits:
      return digits_then_bytes();
    case Cut::Llama3:
      return split_then_bytes(kLlama3Pattern);
    case Cut::Qwen2:
      return split_then_bytes(kQwen2Pattern);
    case Cut::O200k:
      return split_then_bytes(kO200kPattern);
    case Cut::Tekken:
      return split_then_bytes(kTekkenPattern);
    case Cut::Gpt2:
      break;
  }
  return byte_level_section(true);
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<SentencePieceType> types;  ///< GGUF's token types have SentencePiece's numbers
};

Vocabulary vocabulary_of(const GgufFile& file, const std::string& where) {
  Vocabulary vocabulary;
  auto tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) throw UserError({where, "the GGUF holds no tokenizer (tokenizer.ggml.tokens is missing)", "", kTakeTokenizerJson});
  vocabulary.tokens = std::move(*tokens);
  const auto types = file.find_integers("tokenizer.ggml.token_type");
  if (types && types->size() != vocabulary.tokens.size())
    throw UserError({where, fmt::format("{} token types for {} tokens", types->size(), vocabulary.tokens.size()), "", formats::kConvertGgufAgain});
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::int64_t type = types ? (*types)[i] : 1;
    if (type < 1 || type > 6) throw UserError({where, fmt::format("token {} has the unknown type {}", i, type), "", formats::kConvertGgufAgain});
    vocabulary.types.push_back(static_cast<SentencePieceType>(type));
  }
  return vocabulary;
}

std::optional<TokenId> token_id(const GgufFile& file, const char* key, const Vocabulary& vocabulary, const std::string& where) {
  const auto id = file.find_integer(key);
  if (!id || *id < 0 || *id == 0xFFFFFFFF) return std::nullopt;
  if (static_cast<std::size_t>(*id) >= vocabulary.tokens.size())
    throw UserError(
        {where, fmt::format("{} is {}, outside the vocabulary of {}", key, *id, vocabulary.tokens.size()), "", formats::kConvertGgufAgain});
  return static_cast<TokenId>(*id);
}

/// Tokens that end a turn, besides EOS: named by the file, or control tokens with a name that chat models use for that.
std::vector<TokenId> end_of_turn_ids(const GgufFile& file, const Vocabulary& vocabulary, const std::string& where) {
  constexpr std::array<std::string_view, 6> kEndNames = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>"};
  std::vector<TokenId> ids;
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    if (const auto id = token_id(file, key, vocabulary, where)) ids.push_back(*id);
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.types[i] == SentencePieceType::Control && std::find(kEndNames.begin(), kEndNames.end(), vocabulary.tokens[i]) != kEndNames.end())
      ids.push_back(static_cast<TokenId>(i));
  return ids;
}

std::vector<AddedToken> added_tokens_of(const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const SentencePieceType type = vocabulary.types[i];
    const bool special = type == SentencePieceType::Control || type == SentencePieceType::Unknown;
    if (!special && type != SentencePieceType::UserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = vocabulary.tokens[i];
    token.special = special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

TokenizerDefinition byte_level_definition(const GgufFile& file, const Vocabulary& vocabulary, const std::string& where) {
  const Cut cut = cut_of(file.find_string("tokenizer.ggml.pre").value_or("default"), where);
  const auto merges = file.find_strings("tokenizer.ggml.merges");
  if (!merges) throw UserError({where, "tokenizer.ggml.merges is missing", "", formats::kConvertGgufAgain});
  TokenizerDefinition definition;
  definition.where = where;
  definition.model.tokens = vocabulary.tokens;
  definition.model.merges = merges_of_spellings(*merges, vocabulary.tokens, where);
  definition.model.ignore_merges = cut == Cut::Llama3;
  if (cut == Cut::Qwen2) definition.normalizer = {{"type", "NFC"}};
  definition.pre_tokenizer = pre_tokenizer_of(cut);
  definition.decoder = byte_level_section(true);
  definition.added_tokens = added_tokens_of(vocabulary);
  definition.special_tokens = {
      token_id(file, "tokenizer.ggml.bos_token_id", vocabulary, where), token_id(file, "tokenizer.ggml.eos_token_id", vocabulary, where),
      token_id(file, "tokenizer.ggml.padding_token_id", vocabulary, where), token_id(file, "tokenizer.ggml.unknown_token_id", vocabulary, where)};
  std::vector<std::pair<std::string, TokenId>> before;
  std::vector<std::pair<std::string, TokenId>> after;
  const auto token = [&](TokenId id) { return std::pair(vocabulary.tokens[static_cast<std::size_t>(id)], id); };
  if (file.find_bool("tokenizer.ggml.add_bos_token").value_or(cut == Cut::Llama3) && definition.special_tokens.bos)
    before.push_back(token(*definition.special_tokens.bos));
  if (file.find_bool("tokenizer.ggml.add_eos_token").value_or(false) && definition.special_tokens.eos)
    after.push_back(token(*definition.special_tokens.eos));
  definition.post_processor = template_processing(before, after);
  return definition;
}

TokenizerDefinition scored_definition(const GgufFile& file, const Vocabulary& vocabulary, SentencePieceAlgorithm algorithm,
                                      const std::string& where) {
  const auto scores = file.find_numbers("tokenizer.ggml.scores");
  if (!scores || scores->size() != vocabulary.tokens.size())
    throw UserError({where, "tokenizer.ggml.scores must hold a score for every token", "", formats::kConvertGgufAgain});
  SentencePieceModel model;
  model.algorithm = algorithm;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    model.pieces.push_back({vocabulary.tokens[i], static_cast<float>((*scores)[i]), vocabulary.types[i]});
  model.bos_id = token_id(file, "tokenizer.ggml.bos_token_id", vocabulary, where).value_or(-1);
  model.eos_id = token_id(file, "tokenizer.ggml.eos_token_id", vocabulary, where).value_or(-1);
  model.pad_id = token_id(file, "tokenizer.ggml.padding_token_id", vocabulary, where).value_or(-1);
  model.unk_id = token_id(file, "tokenizer.ggml.unknown_token_id", vocabulary, where).value_or(-1);
  const bool unigram = algorithm == SentencePieceAlgorithm::Unigram;
  model.add_dummy_prefix = file.find_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  model.remove_extra_whitespaces = file.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  if (const auto charsmap = file.find_integers("tokenizer.ggml.precompiled_charsmap"))
    for (const std::int64_t byte : *charsmap) model.precompiled_charsmap.push_back(static_cast<char>(byte));
  const SentencePieceOptions options = {file.find_bool("tokenizer.ggml.add_bos_token").value_or(!unigram),
                                        file.find_bool("tokenizer.ggml.add_eos_token").value_or(unigram), true};
  return from_sentencepiece(model, options, where);
}

}  // namespace

TokenizerDefinition from_gguf(const GgufFile& file) {
  const std::string where = file.path().string();
  const Vocabulary vocabulary = vocabulary_of(file, where);
  const std::string kind = file.find_string("tokenizer.ggml.model").value_or("");
  TokenizerDefinition definition;
  if (kind == "gpt2")
    definition = byte_level_definition(file, vocabulary, where);
  else if (kind == "llama")
    definition = scored_definition(file, vocabulary, SentencePieceAlgorithm::Bpe, where);
  else if (kind == "t5")
    definition = scored_definition(file, vocabulary, SentencePieceAlgorithm::Unigram, where);
  else
    throw UserError({where, fmt::format("the GGUF tokenizer kind \"{}\" is not supported yet", kind), "gpt2, llama and t5 are", kTakeTokenizerJson});
  definition.end_of_generation = end_of_turn_ids(file, vocabulary, where);
  definition.chat_template = file.find_string("tokenizer.chat_template");
  return definition;
}

}  // namespace tessera::data
