#include "tessera/data/template/chat.h"

#include "tessera/core/error.h"
#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {
namespace {

constexpr std::string_view kSmolLmSystem = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

/// ChatML as SmolLM2 and others write it: every message between <|im_start|> and <|im_end|>, with a system message of the template's own when the
/// conversation begins without one.
std::string render_chatml(std::string_view template_text, const ChatRequest& request) {
  std::string text;
  const auto add = [&](const std::string& role, std::string_view content) {
    text.append("<|im_start|>" + role + "\n").append(content).append("<|im_end|>\n");
  };
  if (template_text.find(kSmolLmSystem) != std::string_view::npos && !request.messages.empty() && request.messages[0].at("role") != "system")
    add("system", kSmolLmSystem);
  for (const OrderedJson& message : request.messages) add(message.at("role").get<std::string>(), message.at("content").get_ref<const std::string&>());
  if (request.add_generation_prompt) text += "<|im_start|>assistant\n";
  return text;
}

}  // namespace

std::string render_chat(std::string_view template_text, const ChatRequest& request, const std::string& name) {
  const bool chatml = template_text.find("'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'") != std::string_view::npos;
  if (!chatml) throw UserError({name, "this chat template is not supported yet", "ChatML as SmolLM2 writes it is", ""});
  return render_chatml(template_text, request);
}

std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt) {
  const std::string& name = tokenizer.definition().where;
  if (!tokenizer.chat_template())
    throw UserError({name, "the tokenizer has no chat template", "", "use a model that was trained to chat, or give a plain prompt"});
  return render_chat(*tokenizer.chat_template(), {messages, nullptr, add_generation_prompt, nullptr}, name);
}

}  // namespace tessera::data
