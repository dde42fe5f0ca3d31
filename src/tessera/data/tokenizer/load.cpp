#include <fmt/format.h>

#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/logging.h"
#include "tessera/data/tokenizer/frame_choice.h"
#include "tessera/data/tokenizer/model_directory.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/sources.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/data/tokenizer/tokenizer_json.h"
#include "tessera/formats/huggingface.h"
#include "tessera/formats/tiktoken.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

/// Some models ship rank files under SentencePiece's name, so what the bytes look like decides.
TokenizerDefinition from_model_file(const fs::path& path, const SentencePieceOptions& options) {
  const MappedFile file(path);
  if (formats::looks_like_tiktoken(file.text())) return from_tiktoken(file.text(), path.string());
  return from_sentencepiece(formats::parse_sentencepiece_model(file.text(), path.string()), options, path.string());
}

/// What transformers' classes do with a SentencePiece file, as far as tokenizer_config.json tells.
SentencePieceOptions sentencepiece_options(const Json& config) {
  SentencePieceOptions options;
  const auto flag = [&](const char* key, bool fallback) {
    const auto value = config.find(key);
    return value != config.end() && value->is_boolean() ? value->get<bool>() : fallback;
  };
  const auto name = config.find("tokenizer_class");
  const bool t5 = name != config.end() && name->is_string() && name->get_ref<const std::string&>().starts_with("T5");
  options.add_bos = flag("add_bos_token", !t5);
  options.add_eos = flag("add_eos_token", t5);
  options.prefix_after_special = flag("legacy", true);
  return options;
}

TokenizerDefinition from_directory(const fs::path& directory) {
  const formats::TokenizerFiles files = formats::find_tokenizer_files(directory);
  TokenizerDefinition definition;
  if (files.tokenizer_json)
    definition = parse_tokenizer_json(MappedFile(*files.tokenizer_json).text(), files.tokenizer_json->string());
  else if (files.sentencepiece_model)
    definition = from_model_file(*files.sentencepiece_model, sentencepiece_options(read_tokenizer_config(directory)));
  else if (files.vocab_json && files.merges_txt)
    definition = from_vocabulary_and_merges(*files.vocab_json, *files.merges_txt);
  else
    throw UserError({directory.string(), "the directory holds no tokenizer", "tokenizer.json, tokenizer.model, or vocab.json with merges.txt",
                     "copy the tokenizer's files into the model's directory"});
  add_model_directory(directory, definition);
  return definition;
}

TokenizerDefinition from_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".json") return parse_tokenizer_json(MappedFile(path).text(), path.string());
  if (extension == ".gguf") return from_gguf(formats::GgufFile(path));
  if (extension == ".bin") return from_llama2c(formats::read_llama2c_tokenizer(path), path.string());
  return from_model_file(path, {});
}

/// Puts a token at the outer end of one side of the frame, or takes it away from there.
void choose(const std::optional<bool>& wanted, const std::optional<TokenId>& token, const char* name, bool first, std::vector<TokenId>& side,
            const std::string& where) {
  if (!wanted) return;
  if (!token) {
    log::warning("{}: add_{}_token has no effect: the tokenizer names no {} token", where, name, name);
    return;
  }
  const bool there = !side.empty() && (first ? side.front() : side.back()) == *token;
  if (there == *wanted) return;
  const auto at = first ? side.begin() : there ? side.end() - 1 : side.end();
  there ? side.erase(at) : side.insert(at, *token);
}

std::string spelling(const TokenizerDefinition& definition, TokenId id) {
  for (const AddedToken& token : definition.added_tokens)
    if (token.id == id) return token.content;
  const auto index = static_cast<std::size_t>(id);
  return index < definition.model.tokens.size() ? definition.model.tokens[index] : std::to_string(id);
}

void choose_frame(const FrameChoice& choice, TokenizerDefinition& definition) {
  if (!choice.bos && !choice.eos) return;
  SpecialFrame frame;
  if (!definition.post_processor.is_null()) frame = parse_post_processor(definition.post_processor, definition.where);
  choose(choice.bos, definition.special_tokens.bos, "bos", true, frame.before, definition.where);
  choose(choice.eos, definition.special_tokens.eos, "eos", false, frame.after, definition.where);
  const auto spelled = [&](const std::vector<TokenId>& ids) {
    std::vector<std::pair<std::string, TokenId>> tokens;
    for (const TokenId id : ids) tokens.emplace_back(spelling(definition, id), id);
    return tokens;
  };
  definition.post_processor = template_processing(spelled(frame.before), spelled(frame.after));
}

}  // namespace

Tokenizer load_tokenizer(const fs::path& path) { return load_tokenizer(path, FrameChoice{}); }

Tokenizer load_tokenizer(const fs::path& path, const FrameChoice& choice) {
  TokenizerDefinition definition = fs::is_directory(path) ? from_directory(path) : from_file(path);
  choose_frame(choice, definition);
  return Tokenizer(std::move(definition));
}

}  // namespace tessera::data
