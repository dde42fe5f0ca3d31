#include "tessera/data/dataset/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/data/dataset/checks.h"

namespace tessera::data {
namespace {

using Tokens = std::vector<TokenId>;

/// What the tokenizer puts before and after a text of its own accord.
struct Affixes {
  std::size_t before = 0;
  std::size_t after = 0;
};

Affixes affixes_of(const Tokens& with_special, const Tokens& bare) {
  const auto found = std::search(with_special.begin(), with_special.end(), bare.begin(), bare.end());
  if (found == with_special.end()) return {};
  const auto before = static_cast<std::size_t>(found - with_special.begin());
  return {before, with_special.size() - before - bare.size()};
}

/// The length that samples are cut to, 0 for none.
std::int64_t cut_length(const InstructionOptions& options, const DatasetContext& context) {
  if (!options.truncate) return 0;
  if (options.seq_length > 0 && context.context_length > 0) return std::min(options.seq_length, context.context_length + 1);
  return options.seq_length > 0 ? options.seq_length : context.context_length;
}

/// Cuts the text and leaves the tokenizer's own tokens at the end where they are, as Hugging Face tokenizers do.
void cut(Tokens& tokens, std::int64_t length, const Affixes& affixes) {
  const auto limit = static_cast<std::size_t>(length);
  if (length == 0 || tokens.size() <= limit) return;
  const std::size_t after = std::min(affixes.after, limit);
  const auto first_removed = tokens.begin() + static_cast<std::ptrdiff_t>(limit - after);
  tokens.erase(first_removed, tokens.end() - static_cast<std::ptrdiff_t>(after));
}

/// Shifts: position t predicts token t + 1, where `learn[t + 1]`.
Sample shifted_sample(const Tokens& tokens, const std::vector<bool>& learn, const InstructionOptions& options, const DatasetContext& context,
                      const std::string& where) {
  if (tokens.size() < 2) {
    throw UserError({where, fmt::format("makes {} token(s)", tokens.size()), "a sample has at least two tokens: one to read and one to predict", ""});
  }
  Sample sample;
  sample.input_ids.assign(tokens.begin(), tokens.end() - 1);
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  for (std::size_t t = 0; t < sample.labels.size(); ++t) {
    if (!learn[t + 1]) sample.labels[t] = ignored_label;
  }
  if (options.pad_to_seq_length) sample.padded_length = options.seq_length;
  check_sample_fits(sample, context, where);
  return sample;
}

bool refuses_system_role(const UserError& error) {
  return std::string_view(error.what()).find("System role not supported") != std::string_view::npos;
}

/// The system text moves to the head of the first user message.
OrderedJson without_system_role(const OrderedJson& messages) {
  std::string system;
  OrderedJson rest = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    if (message.at("role") == "system") {
      system = message.at("content").get<std::string>();
    } else {
      rest.push_back(message);
    }
  }
  for (OrderedJson& message : rest) {
    if (message.at("role") != "user") continue;
    message["content"] = system + "\n" + message.at("content").get<std::string>();
    return rest;
  }
  rest.insert(rest.begin(), OrderedJson{{"role", "user"}, {"content", system}});
  return rest;
}

Tokens encode_conversation(const OrderedJson& messages, const DatasetContext& context) {
  std::string text;
  try {
    text = context.render_chat(messages);
  } catch (const UserError& error) {
    if (!refuses_system_role(error)) throw;
    text = context.render_chat(without_system_role(messages));
  }
  return context.tokenizer->encode(text, false);
}

/// A prefix may end with an end-of-text token that the longer conversation does not have there.
bool is_prefix(const Tokens& prefix, const Tokens& whole, std::optional<TokenId> eos) {
  if (prefix.size() > whole.size()) return false;
  const auto differs = std::mismatch(prefix.begin(), prefix.end(), whole.begin()).first;
  return differs == prefix.end() || (prefix.size() > 1 && differs == prefix.end() - 1 && eos && prefix.back() == *eos);
}

std::size_t prefix_length(const OrderedJson& messages, std::size_t count, const Tokens& whole, const DatasetContext& context,
                          const std::string& where) {
  if (count == 0) return 0;
  if (count == messages.size()) return whole.size();
  const OrderedJson head(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
  const Tokens prefix = encode_conversation(head, context);
  if (!is_prefix(prefix, whole, context.tokenizer->special_tokens().eos)) {
    throw UserError({where, fmt::format("the chat template writes the first {} message(s) differently when others follow", count),
                     "the answers are located by rendering the conversation up to them",
                     "use a template that does not rewrite earlier turns, or answer_only_loss_mask: false"});
  }
  return prefix.size();
}

std::vector<bool> assistant_turns(const OrderedJson& messages, const Tokens& whole, const DatasetContext& context, const std::string& where) {
  std::vector<bool> learn(whole.size(), false);
  bool found = false;
  for (std::size_t index = 0; index < messages.size(); ++index) {
    if (messages[index].at("role") != "assistant") continue;
    found = true;
    const std::size_t begin = prefix_length(messages, index, whole, context, where);
    const std::size_t end = prefix_length(messages, index + 1, whole, context, where);
    std::fill(learn.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)), learn.begin() + static_cast<std::ptrdiff_t>(end), true);
  }
  if (!found) throw UserError({where, "the conversation has no assistant's turn", "only the assistant's turns are learnt", ""});
  return learn;
}

}  // namespace

Sample prompt_completion_sample(std::string_view prompt, std::string_view answer, const InstructionOptions& options, const DatasetContext& context,
                                const std::string& where) {
  const std::string text = std::string(prompt).append(answer);
  Tokens tokens = context.tokenizer->encode(text, true);
  const Affixes affixes = affixes_of(tokens, context.tokenizer->encode(text, false));
  std::vector<bool> learn(tokens.size(), true);
  if (options.answer_only_loss_mask) {
    const std::size_t prompt_length = affixes.before + context.tokenizer->encode(prompt, false).size();
    std::fill_n(learn.begin(), std::min(prompt_length, learn.size()), false);
  }
  cut(tokens, cut_length(options, context), affixes);
  return shifted_sample(tokens, learn, options, context, where);
}

Sample conversation_sample(const OrderedJson& messages, const InstructionOptions& options, const DatasetContext& context, const std::string& where) {
  TESSERA_ASSERT(context.render_chat, "conversations need a chat template");
  Tokens tokens = encode_conversation(messages, context);
  std::vector<bool> learn(tokens.size(), true);
  if (options.answer_only_loss_mask) learn = assistant_turns(messages, tokens, context, where);
  cut(tokens, cut_length(options, context), {});
  return shifted_sample(tokens, learn, options, context, where);
}

}  // namespace tessera::data
