#include "tessera/data/dataset/chat_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/data/dataset/agent_messages.h"
#include "tessera/data/dataset/for_each_index.h"

namespace tessera::data {
namespace {

bool has_assistant(const Conversation& conversation) {
  for (const OrderedJson& message : conversation.messages)
    if (message["role"] == "assistant") return true;
  return false;
}

}  // namespace

ChatDataset::ChatDataset(Records records, InstructionOptions options, ChatOptions chat, DatasetContext context)
    : records_(std::move(records)), options_(options), chat_(std::move(chat)), context_(std::move(context)), long_samples_(options_, context_) {
  if (!context_.chat_template) {
    throw UserError({"", "there is no chat template", "a chat dataset is rendered with the tokenizer's template, or with chat_template",
                     "set chat_template to a .jinja file, or use a model that was trained to chat"});
  }
  leave_out();
  refuse_empty(records_, left_out());
}

Conversation ChatDataset::conversation(std::int64_t index, const std::string& where) const {
  Conversation found = chat_.conversation(records_.record(index), where);
  if (!chat_.shorten_history || options_.seq_length == 0) return found;
  return with_recent_exchanges(std::move(found), options_.seq_length, context_, where);
}

ChatDataset::Verdict ChatDataset::check(std::int64_t index) {
  const std::string where = records_.where(index);
  const Conversation found = conversation(index, where);
  if (!has_assistant(found)) {
    if (chat_.skip_without_assistant) return Verdict::NoAssistant;
    throw UserError({where, "the conversation has no assistant's turn", "only the assistant's turns are trained on", kCorrectRecord});
  }
  const std::int64_t bytes = conversation_bytes(found, context_, where);
  if (bytes < 2) throw UserError({where, "the conversation is empty", "a sample has something to read and something to predict", kCorrectRecord});
  if (chat_.skip_too_long && bytes > options_.seq_length && conversation_tokens(found, context_, where) > options_.seq_length)
    return Verdict::TooLong;
  long_samples_.check(bytes, [&] { return conversation_sample(found, options_, context_, where); });
  return Verdict::Good;
}

ChatDataset::Verdict ChatDataset::check(std::int64_t index, std::string& reason) {
  if (!chat_.skip_invalid) return check(index);
  try {
    return check(index);
  } catch (const UserError& error) {
    const Problem& problem = error.problems().front();
    reason = problem.where + ": " + problem.what;
    return Verdict::Invalid;
  }
}

void ChatDataset::leave_out() {
  std::vector<Verdict> verdicts(static_cast<std::size_t>(records_.size()));
  std::mutex mutex;
  std::int64_t first_invalid = records_.size();
  for_each_index(records_.size(), context_.num_threads, "checking conversations", [&](std::int64_t index) {
    std::string reason;
    verdicts[static_cast<std::size_t>(index)] = check(index, reason);
    const std::lock_guard lock(mutex);
    if (reason.empty() || index > first_invalid) return;
    first_invalid = index;
    first_invalid_ = std::move(reason);
  });
  std::vector<std::int64_t> good;
  for (std::int64_t index = 0; index < records_.size(); ++index)
    if (verdicts[static_cast<std::size_t>(index)] == Verdict::Good) good.push_back(index);
  num_invalid_ = std::ranges::count(verdicts, Verdict::Invalid);
  num_without_assistant_ = std::ranges::count(verdicts, Verdict::NoAssistant);
  num_too_long_ = std::ranges::count(verdicts, Verdict::TooLong);
  if (good.size() < verdicts.size()) records_.keep_only(good);
}

Sample ChatDataset::sample(std::int64_t index) const {
  const std::string where = records_.where(index);
  Sample sample = conversation_sample(conversation(index, where), options_, context_, where);
  sample.number = index;
  return sample;
}

std::string ChatDataset::left_out() const {
  std::string text = long_samples_.description();
  if (num_invalid_ > 0) text += fmt::format("; {} invalid sample(s) skipped, the first because {}", num_invalid_, first_invalid_);
  if (num_without_assistant_ > 0) text += fmt::format("; {} without an assistant's turn left out", num_without_assistant_);
  if (num_too_long_ > 0) text += fmt::format("; {} longer than {} tokens left out", num_too_long_, options_.seq_length);
  return text;
}

std::string ChatDataset::description() const {
  return fmt::format("{} conversations from {}{}", records_.size(), records_.description(), left_out());
}

}  // namespace tessera::data
