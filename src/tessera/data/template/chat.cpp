#include "tessera/data/template/chat.h"

#include <fmt/format.h>

#include <regex>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/data/template/interpreter.h"
#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {
namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm broken_down{};
  localtime_r(&now, &broken_down);
  return broken_down;
}

jinja::Scope variables_of(const ChatRequest& request) {
  jinja::Scope scope;
  const auto add = [&](const std::string& name, const OrderedJson& value) { scope.variables[name] = jinja::Value::from_json(value); };
  add("messages", request.messages);
  add("tools", request.tools);
  add("documents", nullptr);
  add("add_generation_prompt", request.add_generation_prompt);
  if (request.variables.is_object())
    for (const auto& [name, value] : request.variables.items()) add(name, value);
  return scope;
}

bool has_generation_block(std::string_view text) {
  static const std::regex opening(R"(\{%-?\s+generation\s+-?%\})");  // as AutoModel and transformers look for it
  return std::regex_search(text.begin(), text.end(), opening);
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string name;
  jinja::Block block;
  bool marks_generation = false;

  UserError error(const jinja::TemplateError& error, const char* fix) const {
    return UserError({fmt::format("{}:{}", name, error.line), fmt::format("chat template: {}", error.what()), "", fix});
  }
};

ChatTemplate::ChatTemplate(std::string_view text, std::string name) {
  auto parsed = std::make_shared<Parsed>(std::move(name));
  try {
    parsed->block = jinja::parse(text);
  } catch (const jinja::TemplateError& error) {
    throw parsed->error(error, "correct the template, or use another");
  }
  parsed->marks_generation = has_generation_block(text);
  parsed_ = std::move(parsed);
}

RenderedChat ChatTemplate::render(const ChatRequest& request) const {
  try {
    RenderedChat rendered;
    jinja::Scope scope = variables_of(request);
    jinja::Interpreter interpreter(request.now ? *request.now : local_time(), rendered.text);
    interpreter.run(parsed_->block, scope);
    rendered.assistant_ranges = interpreter.generation_ranges();
    return rendered;
  } catch (const jinja::TemplateError& error) {
    throw parsed_->error(error, "correct the conversation, or use another template");
  }
}

bool ChatTemplate::marks_generation() const { return parsed_->marks_generation; }
const std::string& ChatTemplate::name() const { return parsed_->name; }

ChatTemplate load_chat_template(const std::filesystem::path& path) {
  std::string text = read_text_file(path);
  if (path.extension() == ".json") {
    const Json json = parse_json(text, path.string());
    if (!json.is_object() || !json.contains("chat_template") || !json["chat_template"].is_string())
      throw UserError({path.string(), "there is no text \"chat_template\"", "a JSON file holds the template under that key",
                       "name a tokenizer_config.json, a chat_template.json or a .jinja file"});
    text = json["chat_template"].get<std::string>();
  }
  return {text, path.string()};
}

ChatTemplate chat_template_of(const Tokenizer& tokenizer) {
  const std::string& where = tokenizer.definition().where;
  if (!tokenizer.chat_template())
    throw UserError({where, "the tokenizer has no chat template", "", "use a model that was trained to chat, or give a plain prompt"});
  return {*tokenizer.chat_template(), where + " (chat template)"};
}

OrderedJson special_token_variables(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  OrderedJson variables = OrderedJson::object();
  const auto add = [&](const char* name, const std::optional<TokenId>& id) {
    if (id) variables[name] = tokenizer.spelling(id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos);
  add("pad_token", special.pad);
  add("unk_token", special.unk);
  return variables;
}

std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt) {
  return chat_template_of(tokenizer).render({messages, nullptr, add_generation_prompt, special_token_variables(tokenizer), std::nullopt}).text;
}

}  // namespace tessera::data
