#pragma once

#include <string>
#include <string_view>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// What a chat template is rendered over.
struct ChatRequest {
  OrderedJson messages;  ///< [{"role": …, "content": …, …}, …]
  OrderedJson tools;     ///< null without tools
  bool add_generation_prompt = false;
  OrderedJson variables;  ///< further variables by name (bos_token, enable_thinking, documents, …); an object or null
};

/// The text of a conversation as transformers' apply_chat_template renders it. `name` is what errors call the template.
/// UserError when the template is broken, uses something that is not supported, or raises an exception of its own.
std::string render_chat(std::string_view template_text, const ChatRequest& request, const std::string& name);

/// The same with the tokenizer's own template and special tokens. Encode the result without further special tokens.
/// UserError when the tokenizer has no template.
std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt);

}  // namespace tessera::data
