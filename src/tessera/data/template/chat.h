#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
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

/// A template parsed once. An immutable value: copies are cheap, and many threads may render at once. Rendering is what transformers'
/// apply_chat_template does: Jinja with trim_blocks and lstrip_blocks in an immutable sandbox, limited in work and depth.
class ChatTemplate {
 public:
  /// `name` is what errors call the template. UserError "name:line: …" when it is broken or uses something that is not supported.
  ChatTemplate(std::string_view text, std::string name);
  /// UserError "name:line: …" when the template fails or raises an exception of its own.
  RenderedChat render(const ChatRequest& request) const;
  /// Whether it marks what the assistant says with {% generation %} blocks.
  bool marks_generation() const;
  const std::string& name() const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

/// The template in a file: Jinja, or JSON that has it as "chat_template".
ChatTemplate load_chat_template(const std::filesystem::path& path);
/// The tokenizer's own template. UserError when it has none.
ChatTemplate chat_template_of(const Tokenizer& tokenizer);
/// bos_token, eos_token, pad_token and unk_token as templates see them: those the tokenizer has.
OrderedJson special_token_variables(const Tokenizer& tokenizer);

/// The text of a conversation by the tokenizer's own template, with its special tokens. Encode it without further special tokens.
std::string render_chat(const Tokenizer& tokenizer, const OrderedJson& messages, bool add_generation_prompt);

}  // namespace tessera::data
