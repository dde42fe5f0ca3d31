#include "tessera/data/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/token_table.h"

namespace tessera::data {
namespace {

constexpr std::uint64_t kLargestId = (1U << 22) - 1;

TokenId token_id(const JsonSection& section, const char* what, const Json& json) {
  const auto id = natural_number(json, kLargestId);
  if (!id) section.not_supported(fmt::format("the id {} of \"{}\"", json.dump().substr(0, 40), what), fmt::format("ids go from 0 to {}", kLargestId));
  return static_cast<TokenId>(*id);
}

void place(ModelDefinition& model, TokenId id, std::string token, const JsonSection& section) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= model.tokens.size()) model.tokens.resize(index + 1);
  if (!model.tokens[index].empty()) section.fail(fmt::format("\"{}\" and \"{}\" have the same id {}", model.tokens[index], token, id));
  model.tokens[index] = std::move(token);
}

/// {"token": id, …}; a token "" cannot be met and is left out.
void read_vocabulary(const JsonSection& section, ModelDefinition& model) {
  const Json& vocabulary = section.required("vocab");
  if (!vocabulary.is_object()) section.fail("\"vocab\" must be an object from tokens to ids");
  for (const auto& [token, id] : vocabulary.items())
    if (!token.empty()) place(model, token_id(section, token.c_str(), id), token, section);
}

/// [["token", log probability], …]
void read_scored_vocabulary(const JsonSection& section, ModelDefinition& model) {
  for (const Json& entry : section.array("vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      section.fail(fmt::format("vocab[{}] must be a token and its score", model.tokens.size()));
    model.tokens.push_back(entry[0].get<std::string>());
    model.scores.push_back(entry[1].get<double>());
  }
}

TokenTable table_of(const ModelDefinition& model) {
  TokenTable table(model.tokens.size());
  for (std::size_t i = 0; i < model.tokens.size(); ++i)
    if (!model.tokens[i].empty()) table.insert(model.tokens[i], static_cast<TokenId>(i));
  return table;
}

/// Both spellings: "left right", and ["left", "right"], whose parts may contain spaces.
std::pair<std::string, std::string> merge_parts(const Json& merge, std::size_t index, const JsonSection& section) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) return {text.substr(0, space), text.substr(space + 1)};
  }
  section.fail(fmt::format("merges[{}] must be two tokens", index));
}

void read_merges(const JsonSection& section, ModelDefinition& model) {
  const TokenTable table = table_of(model);
  const auto id_of = [&](std::size_t index, const std::string& token) {
    const TokenId id = table.find(token);
    if (id < 0) section.fail(fmt::format("merges[{}] needs the token \"{}\", which is not in the vocabulary", index, token));
    return id;
  };
  const Json& merges = section.array("merges");
  const std::string& prefix = model.continuing_subword_prefix;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = merge_parts(merges[i], i, section);
    const std::string tail = right.starts_with(prefix) ? right.substr(prefix.size()) : right;
    model.merges.push_back({id_of(i, left), id_of(i, right), id_of(i, left + tail), static_cast<std::uint32_t>(i)});
  }
}

void read_unk_token(const JsonSection& section, ModelDefinition& model, bool required) {
  const std::string unk = section.string_or("unk_token", "");
  if (unk.empty() && !required) return;
  const TokenId id = table_of(model).find(unk);
  if (id >= 0) model.unk = id;
}

void read_bpe(const JsonSection& section, ModelDefinition& model) {
  model.kind = ModelKind::Bpe;
  if (const Json* dropout = section.find("dropout"); dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0))
    section.not_supported("BPE dropout", "Tessera tokenizes the same text the same way every time");
  model.byte_fallback = section.boolean_or("byte_fallback", false);
  model.fuse_unk = section.boolean_or("fuse_unk", false);
  model.ignore_merges = section.boolean_or("ignore_merges", false);
  model.continuing_subword_prefix = section.string_or("continuing_subword_prefix", "");
  model.end_of_word_suffix = section.string_or("end_of_word_suffix", "");
  read_vocabulary(section, model);
  read_merges(section, model);
  read_unk_token(section, model, false);
}

void read_unigram(const JsonSection& section, ModelDefinition& model) {
  model.kind = ModelKind::Unigram;
  read_scored_vocabulary(section, model);
  model.byte_fallback = section.boolean_or("byte_fallback", false);
  if (const auto unk = section.integer("unk_id")) {
    if (*unk >= model.tokens.size()) section.fail(fmt::format("unk_id {} is outside the vocabulary of {}", *unk, model.tokens.size()));
    model.unk = static_cast<TokenId>(*unk);
  }
}

void read_word_piece(const JsonSection& section, ModelDefinition& model) {
  model.kind = ModelKind::WordPiece;
  model.continuing_subword_prefix = section.string_or("continuing_subword_prefix", "##");
  model.max_input_chars_per_word = section.integer("max_input_chars_per_word").value_or(100);
  read_vocabulary(section, model);
  read_unk_token(section, model, true);
}

/// Old files leave the type out: then the fields tell.
std::string model_type(const JsonSection& section) {
  if (section.find("type") != nullptr) return section.string("type");
  if (section.find("merges") != nullptr) return "BPE";
  if (section.find("max_input_chars_per_word") != nullptr) return "WordPiece";
  return section.required("vocab").is_array() ? "Unigram" : "WordLevel";
}

ModelDefinition parse_model(const JsonSection& section) {
  ModelDefinition model;
  const std::string type = model_type(section);
  if (type == "BPE") {
    read_bpe(section, model);
  } else if (type == "Unigram") {
    read_unigram(section, model);
  } else if (type == "WordPiece") {
    read_word_piece(section, model);
  } else if (type == "WordLevel") {
    model.kind = ModelKind::WordLevel;
    read_vocabulary(section, model);
    read_unk_token(section, model, false);
  } else {
    section.not_supported(fmt::format("the model \"{}\"", type), "BPE, Unigram, WordPiece or WordLevel");
  }
  return model;
}

std::vector<AddedToken> parse_added_tokens(const JsonSection& document, const ModelDefinition& model) {
  std::vector<AddedToken> tokens;
  if (document.find("added_tokens") == nullptr) return tokens;
  const TokenTable table = table_of(model);
  const Json& list = document.array("added_tokens");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonSection entry(list[i], document.where(), fmt::format("added_tokens[{}]", i));
    AddedToken token = parse_added_token(list[i], token_id(entry, "added token", entry.required("id")), entry.where(), entry.path());
    // A token that the model knows keeps the model's id, whatever the list says.
    if (const TokenId known = table.find(token.content); known >= 0) token.id = known;
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

Json section_or_null(const JsonSection& document, const char* key) {
  const Json* section = document.find(key);
  return section == nullptr ? Json() : *section;
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

std::string vocabulary_json(const ModelDefinition& model) {
  const bool scored = model.kind == ModelKind::Unigram;
  std::string out;
  for (std::size_t i = 0; i < model.tokens.size(); ++i) {
    if (model.tokens[i].empty() && !scored) continue;
    if (!out.empty()) out += ",\n      ";
    out +=
        scored ? fmt::format("[{}, {}]", quoted(model.tokens[i]), Json(model.scores[i]).dump()) : fmt::format("{}: {}", quoted(model.tokens[i]), i);
  }
  return scored ? fmt::format("[\n      {}\n    ]", out) : fmt::format("{{\n      {}\n    }}", out);
}

std::string merges_json(const ModelDefinition& model) {
  std::string out;
  for (const Merge& merge : model.merges)
    out += fmt::format("{}[{}, {}]", out.empty() ? "" : ",\n      ", quoted(model.tokens[static_cast<std::size_t>(merge.left)]),
                       quoted(model.tokens[static_cast<std::size_t>(merge.right)]));
  return fmt::format("[\n      {}\n    ]", out);
}

std::string field(const char* key, const Json& value) { return fmt::format("    \"{}\": {},\n", key, value.dump()); }

std::string model_json(const ModelDefinition& model) {
  const Json unk = model.unk ? Json(model.tokens[static_cast<std::size_t>(*model.unk)]) : Json();
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  std::string out = "{\n";
  switch (model.kind) {
    case ModelKind::Bpe:
      out += field("type", "BPE") + field("dropout", nullptr) + field("unk_token", unk) +
             field("continuing_subword_prefix", text_or_null(model.continuing_subword_prefix)) +
             field("end_of_word_suffix", text_or_null(model.end_of_word_suffix)) + field("fuse_unk", model.fuse_unk) +
             field("byte_fallback", model.byte_fallback) + field("ignore_merges", model.ignore_merges);
      break;
    case ModelKind::Unigram:
      out += field("type", "Unigram") + field("unk_id", model.unk ? Json(*model.unk) : Json()) + field("byte_fallback", model.byte_fallback);
      break;
    case ModelKind::WordPiece:
      out += field("type", "WordPiece") + field("unk_token", unk) + field("continuing_subword_prefix", model.continuing_subword_prefix) +
             field("max_input_chars_per_word", model.max_input_chars_per_word);
      break;
    case ModelKind::WordLevel:
      out += field("type", "WordLevel") + field("unk_token", unk);
      break;
  }
  out += fmt::format("    \"vocab\": {}", vocabulary_json(model));
  if (model.kind == ModelKind::Bpe) out += fmt::format(",\n    \"merges\": {}", merges_json(model));
  return out + "\n  }";
}

Json added_tokens_json(const std::vector<AddedToken>& tokens) {
  Json list = Json::array();
  for (const AddedToken& token : tokens)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  return list;
}

}  // namespace

AddedToken parse_added_token(const Json& json, TokenId id, const std::string& where, const std::string& path) {
  const JsonSection section(json, where, path);
  AddedToken token;
  token.id = id;
  token.content = section.string("content");
  token.single_word = section.boolean_or("single_word", false);
  token.lstrip = section.boolean_or("lstrip", false);
  token.rstrip = section.boolean_or("rstrip", false);
  token.special = section.boolean_or("special", false);
  token.normalized = section.boolean_or("normalized", !token.special);
  return token;
}

TokenizerDefinition parse_tokenizer_json(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  const JsonSection document(json, where, "");
  TokenizerDefinition definition;
  definition.where = where;
  definition.normalizer = section_or_null(document, "normalizer");
  definition.pre_tokenizer = section_or_null(document, "pre_tokenizer");
  definition.model = parse_model(document.object("model"));
  definition.post_processor = section_or_null(document, "post_processor");
  definition.decoder = section_or_null(document, "decoder");
  definition.added_tokens = parse_added_tokens(document, definition.model);
  return definition;
}

std::string tokenizer_json(const TokenizerDefinition& definition) {
  const auto section = [](const char* key, const Json& json) { return fmt::format("  \"{}\": {},\n", key, json.dump()); };
  return "{\n  \"version\": \"1.0\",\n" + section("truncation", nullptr) + section("padding", nullptr) +
         section("added_tokens", added_tokens_json(definition.added_tokens)) + section("normalizer", definition.normalizer) +
         section("pre_tokenizer", definition.pre_tokenizer) + section("post_processor", definition.post_processor) +
         section("decoder", definition.decoder) + fmt::format("  \"model\": {}\n}}\n", model_json(definition.model));
}

}  // namespace tessera::data
