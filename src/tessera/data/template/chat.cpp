#include "tessera/data/template/chat.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
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

}  // namespace

RenderedChat render_chat_template(std::string_view template_text, const ChatRequest& request, const std::string& name) {
  try {
    RenderedChat rendered;
    const jinja::Block block = jinja::parse(template_text);
    jinja::Scope scope = variables_of(request);
    jinja::Interpreter interpreter(request.now ? *request.now : local_time(), rendered.text);
    interpreter.run(block, scope);
    rendered.assistant_ranges = interpreter.generation_ranges();
    return rendered;
  } catch (const jinja::TemplateError& error) {
    throw UserError({fmt::format("{}:{}", name, error.line), fmt::format("chat template: {}", error.what()), "", ""});
  }
}

std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt) {
  const std::string& where = tokenizer.definition().where;
  if (!tokenizer.chat_template())
    throw UserError({where, "the tokenizer has no chat template", "", "use a model that was trained to chat, or give a plain prompt"});
  const SpecialTokens& special = tokenizer.special_tokens();
  OrderedJson variables = OrderedJson::object();
  const auto add = [&](const char* name, const std::optional<TokenId>& id) {
    if (id) variables[name] = tokenizer.spelling(id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos);
  add("pad_token", special.pad);
  add("unk_token", special.unk);
  return render_chat_template(*tokenizer.chat_template(), {messages, nullptr, add_generation_prompt, std::move(variables), std::nullopt},
                              where + " (chat template)")
      .text;
}

}  // namespace tessera::data
