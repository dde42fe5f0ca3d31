#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// What a chat template is rendered over.
struct ChatRequest {
  OrderedJson messages;  ///< [{"role": …, "content": …, …}, …]
  OrderedJson tools;     ///< null without tools
  bool add_generation_prompt = false;
  OrderedJson variables;       ///< further variables by name (bos_token, enable_thinking, documents, …); an object or null
  std::optional<std::tm> now;  ///< what strftime_now formats; the present local time without it
};

struct RenderedChat {
  std::string text;
  /// Byte ranges of what stands within {% generation %} blocks: what the assistant says.
  std::vector<std::pair<std::size_t, std::size_t>> assistant_ranges;
};

/// A conversation as transformers' apply_chat_template renders it: Jinja with trim_blocks and lstrip_blocks in an immutable sandbox, limited in work
/// and depth. `name` is what errors call the template. UserError "name:line: …" when the template is broken, uses something that is not supported,
/// or raises an exception of its own.
RenderedChat render_chat_template(std::string_view template_text, const ChatRequest& request, const std::string& name);

/// The text of a conversation by the tokenizer's own template, with its special tokens as bos_token and so on. Encode it without further special
/// tokens. UserError when the tokenizer has no template.
std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt);

}  // namespace tessera::data
