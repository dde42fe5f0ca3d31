#include "tessera/data/dataset/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/data/dataset/checks.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

using Tokens = std::vector<TokenId>;

/// The length that samples are cut to, 0 for none.
std::int64_t cut_length(const InstructionOptions& options, const DatasetContext& context) {
  if (!options.truncate) return 0;
  if (options.seq_length > 0 && context.context_length > 0) return std::min(options.seq_length, context.context_length + 1);
  return options.seq_length > 0 ? options.seq_length : context.context_length;
}

/// Cuts the text and leaves the tokenizer's own tokens at the end where they are, as Hugging Face tokenizers do.
std::int64_t cut(Tokens& tokens, std::int64_t length, const FrameSize& frame) {
  const auto limit = static_cast<std::size_t>(length);
  if (length == 0 || tokens.size() <= limit) return 0;
  const std::int64_t num_cut = std::ssize(tokens) - length;
  const std::size_t after = std::min(frame.after, limit);
  const auto first_removed = tokens.begin() + static_cast<std::ptrdiff_t>(limit - after);
  tokens.erase(first_removed, tokens.end() - static_cast<std::ptrdiff_t>(after));
  return num_cut;
}

/// Shifts: position t predicts token t + 1, where `learn[t + 1]`.
InstructionSample shifted_sample(const Tokens& tokens, const std::vector<bool>& learn, const InstructionOptions& options,
                                 const DatasetContext& context, const std::string& where) {
  if (tokens.size() < 2) {
    throw UserError({where, fmt::format("makes {} token(s)", tokens.size()), "a sample has at least two tokens: one to read and one to predict",
                     "complete or remove this record"});
  }
  InstructionSample sample;
  sample.input_ids.assign(tokens.begin(), tokens.end() - 1);
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  for (std::size_t t = 0; t < sample.labels.size(); ++t) {
    if (!learn[t + 1]) sample.labels[t] = kIgnoredLabel;
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

RenderedChat render_text(const Conversation& conversation, const DatasetContext& context, const std::string& where) {
  const auto render_messages = [&](const OrderedJson& messages) {
    return context.chat_template->render({.messages = messages,
                                          .tools = conversation.tools,
                                          .add_generation_prompt = false,
                                          .variables = special_token_variables(*context.tokenizer),
                                          .now = std::nullopt});
  };
  try {
    return render_messages(conversation.messages);
  } catch (const UserError& error) {
    if (refuses_system_role(error)) return render_messages(without_system_role(conversation.messages));
    const Problem& problem = error.problems().front();
    throw UserError({where, problem.what + " (" + problem.where + ")", "the chat template decides which conversations it takes", problem.fix});
  }
}

/// A conversation as tokens, and where the assistant speaks if the template tells.
struct Rendered {
  Tokens tokens;
  RenderedChat chat;
};

Rendered render(const Conversation& conversation, const DatasetContext& context, const std::string& where) {
  RenderedChat chat = render_text(conversation, context, where);
  Tokens tokens = context.tokenizer->encode(chat.text, false);
  return {std::move(tokens), std::move(chat)};
}

/// Where each token ends in the text that the tokens spell.
std::vector<std::size_t> token_ends(const Tokens& tokens, const Tokenizer& tokenizer) {
  IncrementalDecoder decoder(tokenizer, false);
  std::vector<std::size_t> ends;
  std::size_t end = 0;
  for (const TokenId token : tokens) ends.push_back(end += decoder.push(token).size());
  // The decoder returns a character with its last token: all tokens of the character end there.
  for (std::size_t t = ends.size(); t-- > 1;)
    if (ends[t - 1] == (t >= 2 ? ends[t - 2] : 0)) ends[t - 1] = ends[t];
  return ends;
}

/// The tokens that touch a range of the text. Tokenizers that do not spell the text as it was (other normal forms, a space in front) are asked for
/// the tokens of the text up to the range's ends instead, which is exact where ranges begin and end with a special token.
std::vector<bool> tokens_in_ranges(const Rendered& rendered, const Tokenizer& tokenizer) {
  std::vector<bool> inside(rendered.tokens.size(), false);
  const std::string& text = rendered.chat.text;
  const std::vector<std::size_t> ends = token_ends(rendered.tokens, tokenizer);
  const bool exact = !ends.empty() && ends.back() == text.size() && tokenizer.decode(rendered.tokens, false) == text;
  for (const auto& [begin, end] : rendered.chat.assistant_ranges) {
    if (begin == end) continue;
    std::size_t first, last;
    if (exact) {
      first = static_cast<std::size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
      const std::size_t last_end = *std::ranges::lower_bound(ends, end);
      last = static_cast<std::size_t>(std::ranges::upper_bound(ends, last_end) - ends.begin());
    } else {
      first = tokenizer.encode(std::string_view(text).substr(0, begin), false).size();
      last = tokenizer.encode(std::string_view(text).substr(0, end), false).size();
    }
    for (std::size_t t = first; t < std::min(last, inside.size()); ++t) inside[t] = true;
  }
  return inside;
}

/// A prefix may end with an end-of-text token that the longer conversation does not have there.
bool is_prefix(const Tokens& prefix, const Tokens& whole, std::optional<TokenId> eos) {
  if (prefix.size() > whole.size()) return false;
  const auto differs = std::mismatch(prefix.begin(), prefix.end(), whole.begin()).first;
  return differs == prefix.end() || (prefix.size() > 1 && differs == prefix.end() - 1 && eos && prefix.back() == *eos);
}

std::size_t prefix_length(const Conversation& conversation, std::size_t count, const Tokens& whole, const DatasetContext& context,
                          const std::string& where) {
  const OrderedJson& messages = conversation.messages;
  if (count == 0) return 0;
  if (count == messages.size()) return whole.size();
  const Conversation head{OrderedJson(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)), conversation.tools};
  const Tokens prefix = render(head, context, where).tokens;
  if (!is_prefix(prefix, whole, context.tokenizer->special_tokens().eos)) {
    throw UserError(
        {where, fmt::format("the chat template writes the first {} message(s) differently when others follow", count),
         "the answers are located by rendering the conversation up to them",
         "use a template that marks them with {% generation %}, or that does not rewrite earlier turns, or answer_only_loss_mask: false"});
  }
  return prefix.size();
}

std::vector<bool> assistant_turns(const Conversation& conversation, const Tokens& whole, const DatasetContext& context, const std::string& where) {
  std::vector<bool> learn(whole.size(), false);
  bool found = false;
  for (std::size_t index = 0; index < conversation.messages.size(); ++index) {
    if (conversation.messages[index].at("role") != "assistant") continue;
    found = true;
    const std::size_t begin = prefix_length(conversation, index, whole, context, where);
    const std::size_t end = prefix_length(conversation, index + 1, whole, context, where);
    std::fill(learn.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)), learn.begin() + static_cast<std::ptrdiff_t>(end), true);
  }
  if (!found) throw UserError({where, "the conversation has no assistant's turn", "only the assistant's turns are trained on", kCorrectRecord});
  return learn;
}

/// A turn is one run of tokens to train on: masks all runs but the last.
void keep_last_turn(std::vector<bool>& learn) {
  const auto last = std::find(learn.rbegin(), learn.rend(), true);
  const auto before = std::find(last, learn.rend(), false);
  std::fill(before, learn.rend(), false);
}

/// Masks what differs when a message's reasoning is left out.
void unlearn_reasoning(const Conversation& conversation, const Tokens& whole, const DatasetContext& context, const std::string& where,
                       std::vector<bool>& learn) {
  for (std::size_t index = 0; index < conversation.messages.size(); ++index) {
    const OrderedJson& message = conversation.messages[index];
    const auto reasoning = message.find("reasoning_content");
    if (message.at("role") != "assistant" || reasoning == message.end() || !reasoning->is_string() ||
        reasoning->get_ref<const std::string&>().empty())
      continue;
    Conversation without = conversation;
    without.messages[index]["reasoning_content"] = "";
    const Tokens shorter = render(without, context, where).tokens;
    const auto common = std::min(whole.size(), shorter.size());
    std::size_t before = 0, after = 0;
    while (before < common && whole[before] == shorter[before]) ++before;
    while (after < common - before && whole[whole.size() - 1 - after] == shorter[shorter.size() - 1 - after]) ++after;
    for (std::size_t t = before; t < whole.size() - after; ++t) learn[t] = false;
  }
}

}  // namespace

InstructionSample prompt_completion_sample(std::string_view prompt, std::string_view answer, const InstructionOptions& options,
                                           const DatasetContext& context, const std::string& where) {
  const std::string text = std::string(prompt).append(answer);
  const FrameSize frame = context.tokenizer->frame_size();
  auto [tokens, prompt_size] = context.tokenizer->encode_with_prefix(text, options.answer_only_loss_mask ? prompt.size() : 0, true);
  std::vector<bool> learn(tokens.size(), true);
  if (options.answer_only_loss_mask) std::fill_n(learn.begin(), std::min(frame.before + prompt_size, learn.size()), false);
  const std::int64_t num_cut = cut(tokens, cut_length(options, context), frame);
  InstructionSample sample = shifted_sample(tokens, learn, options, context, where);
  sample.num_cut = num_cut;
  return sample;
}

InstructionSample conversation_sample(const Conversation& conversation, const InstructionOptions& options, const DatasetContext& context,
                                      const std::string& where) {
  TESSERA_ASSERT(context.chat_template, "conversations need a chat template");
  Rendered rendered = render(conversation, context, where);
  Tokens& tokens = rendered.tokens;
  std::vector<bool> learn(tokens.size(), true);
  if (context.chat_template->marks_generation()) {
    learn = tokens_in_ranges(rendered, *context.tokenizer);
  } else if (options.answer_only_loss_mask) {
    learn = assistant_turns(conversation, tokens, context, where);
  }
  if (options.mask_history) keep_last_turn(learn);
  if (options.mask_reasoning) unlearn_reasoning(conversation, tokens, context, where, learn);
  const std::int64_t num_cut = cut(tokens, cut_length(options, context), {});
  InstructionSample sample = shifted_sample(tokens, learn, options, context, where);
  sample.num_cut = num_cut;
  return sample;
}

std::int64_t conversation_tokens(const Conversation& conversation, const DatasetContext& context, const std::string& where) {
  return std::ssize(render(conversation, context, where).tokens);
}

std::int64_t conversation_bytes(const Conversation& conversation, const DatasetContext& context, const std::string& where) {
  return std::ssize(render_text(conversation, context, where).text);
}

LongSamples::LongSamples(const InstructionOptions& options, const DatasetContext& context)
    : limit_(options.truncate ? cut_length(options, context) : context.context_length) {}

void LongSamples::check(std::int64_t num_bytes, const std::function<InstructionSample()>& make) {
  if (limit_ > 0 && num_bytes > limit_ && make().num_cut > 0) ++num_cut_;
}

std::string LongSamples::description() const { return num_cut_ == 0 ? "" : fmt::format("; {} of them cut to {} tokens", num_cut_.load(), limit_); }

}  // namespace tessera::data
