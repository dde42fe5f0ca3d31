#include "tessera/data/tokenizer/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/tokenizer_json.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

Json read_optional(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json json = read_json_file(path);
  if (!json.is_object()) throw UserError({path.string(), "expected an object", "", kDamagedTokenizer});
  return json;
}

AddedToken* find_added(TokenizerDefinition& definition, const std::string& content) {
  const auto found =
      std::find_if(definition.added_tokens.begin(), definition.added_tokens.end(), [&](const AddedToken& t) { return t.content == content; });
  return found == definition.added_tokens.end() ? nullptr : &*found;
}

std::size_t vocabulary_size(const TokenizerDefinition& definition) {
  std::size_t size = definition.model.tokens.size();
  for (const AddedToken& token : definition.added_tokens) size = std::max(size, static_cast<std::size_t>(token.id) + 1);
  return size;
}

/// The id of a token that a configuration file names as special. One that nothing knows yet becomes the next id, as transformers does.
TokenId special_token(TokenizerDefinition& definition, const std::string& content) {
  if (AddedToken* known = find_added(definition, content)) {
    known->special = true;
    return known->id;
  }
  const auto& tokens = definition.model.tokens;
  const auto in_model = std::find(tokens.begin(), tokens.end(), content);
  AddedToken token;
  token.id = static_cast<TokenId>(in_model == tokens.end() ? vocabulary_size(definition) : static_cast<std::size_t>(in_model - tokens.begin()));
  token.content = content;
  token.special = true;
  definition.added_tokens.push_back(token);
  return token.id;
}

void add_added_tokens_decoder(const Json& config, const std::string& where, TokenizerDefinition& definition) {
  const auto table = config.find("added_tokens_decoder");
  if (table == config.end() || !table->is_object()) return;
  for (const auto& [key, fields] : table->items()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const std::string path = "added_tokens_decoder." + key;
    if (error != std::errc() || end != key.data() + key.size() || id < 0) throw UserError({where, path + ": not a token id", "", kDamagedTokenizer});
    AddedToken token = parse_added_token(fields, id, where, path);
    if (!token.content.empty() && find_added(definition, token.content) == nullptr) definition.added_tokens.push_back(std::move(token));
  }
}

void add_added_tokens_json(const fs::path& path, TokenizerDefinition& definition) {
  const Json tokens = read_optional(path);
  for (const auto& [content, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 1U << 22)
      throw UserError({path.string(), fmt::format("\"{}\" has no proper id", content), "", kDamagedTokenizer});
    if (find_added(definition, content) != nullptr) continue;
    AddedToken token;
    token.id = id.get<TokenId>();
    token.content = content;
    definition.added_tokens.push_back(std::move(token));
  }
}

/// "bos_token" and the like: a spelling, or an object with "content"; "" when absent.
std::string named_token(const Json& config, const char* key) {
  const auto value = config.find(key);
  if (value == config.end()) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_object()) return "";
  const auto content = value->find("content");
  return content != value->end() && content->is_string() ? content->get<std::string>() : "";
}

void add_special_tokens(const Json& config, const Json& map, TokenizerDefinition& definition) {
  const auto name = [&](const char* key, std::optional<TokenId>& id) {
    std::string content = named_token(config, key);
    if (content.empty() && !config.contains(key)) content = named_token(map, key);
    if (!content.empty()) id = special_token(definition, content);
  };
  name("bos_token", definition.special_tokens.bos);
  name("eos_token", definition.special_tokens.eos);
  name("unk_token", definition.special_tokens.unk);
  name("pad_token", definition.special_tokens.pad);
  for (const char* key : {"cls_token", "sep_token", "mask_token"}) {
    std::optional<TokenId> unused;
    name(key, unused);
  }
  for (const Json* source : {&config, &map}) {
    const auto list = source->find("additional_special_tokens");
    if (list == source->end() || !list->is_array()) continue;
    for (const Json& entry : *list)
      if (const std::string content = named_token({{"token", entry}}, "token"); !content.empty()) special_token(definition, content);
  }
}

std::vector<TokenId> ids_of(const Json& config, const char* key, std::size_t vocabulary) {
  std::vector<TokenId> ids;
  const auto value = config.find(key);
  if (value == config.end()) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list)
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < vocabulary) ids.push_back(id.get<TokenId>());
  return ids;
}

/// What the model's own configuration says, where the tokenizer's files are silent.
void add_model_config(const Json& config, const Json& generation_config, TokenizerDefinition& definition) {
  const std::size_t vocabulary = vocabulary_size(definition);
  for (const Json* source : {&config, &generation_config}) {
    const auto fill = [&](const char* key, std::optional<TokenId>& id) {
      if (const auto ids = ids_of(*source, key, vocabulary); !id && !ids.empty()) id = ids.front();
    };
    fill("bos_token_id", definition.special_tokens.bos);
    fill("eos_token_id", definition.special_tokens.eos);
    fill("pad_token_id", definition.special_tokens.pad);
    for (const TokenId id : ids_of(*source, "eos_token_id", vocabulary)) definition.end_of_generation.push_back(id);
  }
}

std::optional<std::string> template_of(const Json& config) {
  const auto value = config.find("chat_template");
  if (value == config.end()) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) return std::nullopt;
  // Several named templates: the default one, and the only one when there is no such name.
  for (const Json& entry : *value)
    if (entry.is_object() && entry.value("name", "") == "default" && entry.contains("template") && entry["template"].is_string())
      return entry["template"].get<std::string>();
  return std::nullopt;
}

void add_chat_template(const fs::path& directory, const Json& config, TokenizerDefinition& definition) {
  if (const fs::path jinja = directory / "chat_template.jinja"; fs::exists(jinja)) {
    definition.chat_template = read_text_file(jinja);
  } else if (auto own = template_of(read_optional(directory / "chat_template.json"))) {
    definition.chat_template = std::move(own);
  } else if (auto configured = template_of(config)) {
    definition.chat_template = std::move(configured);
  }
}

/// Llama's tokenizer classes rebuild the post-processor from two switches; other classes keep what tokenizer.json says.
void enforce_bos_and_eos(const Json& config, TokenizerDefinition& definition) {
  const std::string tokenizer_class = named_token(config, "tokenizer_class");
  const bool llama = tokenizer_class.starts_with("Llama") || tokenizer_class.starts_with("CodeLlama") || tokenizer_class.starts_with("Gemma");
  if (!llama || (!config.contains("add_bos_token") && !config.contains("add_eos_token"))) return;
  const auto wanted = [&](const char* key, bool fallback) {
    const auto value = config.find(key);
    return value != config.end() && value->is_boolean() ? value->get<bool>() : fallback;
  };
  const auto framed = [&](bool wanted_here, const std::optional<TokenId>& id, const char* key) {
    std::vector<std::pair<std::string, TokenId>> tokens;
    if (wanted_here && id) tokens.emplace_back(named_token(config, key), *id);
    return tokens;
  };
  definition.post_processor = template_processing(framed(wanted("add_bos_token", true), definition.special_tokens.bos, "bos_token"),
                                                  framed(wanted("add_eos_token", false), definition.special_tokens.eos, "eos_token"));
}

}  // namespace

Json read_tokenizer_config(const fs::path& directory) { return read_optional(directory / "tokenizer_config.json"); }

void add_model_directory(const fs::path& directory, TokenizerDefinition& definition) {
  const Json config = read_tokenizer_config(directory);
  add_added_tokens_decoder(config, (directory / "tokenizer_config.json").string(), definition);
  add_added_tokens_json(directory / "added_tokens.json", definition);
  add_special_tokens(config, read_optional(directory / "special_tokens_map.json"), definition);
  add_model_config(read_optional(directory / "config.json"), read_optional(directory / "generation_config.json"), definition);
  add_chat_template(directory, config, definition);
  enforce_bos_and_eos(config, definition);
}

}  // namespace tessera::data
