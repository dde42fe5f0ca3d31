#include "tessera/data/dataset/chat_dataset.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/parallel.h"

namespace tessera::data {
namespace {

bool has_assistant(const Conversation& conversation) {
  for (const OrderedJson& message : conversation.messages)
    if (message["role"] == "assistant") return true;
  return false;
}

}  // namespace

ChatDataset::ChatDataset(Records records, InstructionOptions options, bool skip_invalid, DatasetContext context)
    : records_(std::move(records)), options_(options), context_(std::move(context)) {
  if (!context_.chat_template) {
    throw UserError({"", "there is no chat template", "a chat dataset is written down by the tokenizer's template, or by chat_template",
                     "set chat_template to a .jinja file, or use a model that was trained to chat"});
  }
  if (skip_invalid) {
    leave_out_invalid();
  } else {
    for_each_index(records_.size(), context_.num_threads, "checking conversations", [this](std::int64_t index) { check(index); });
  }
  if (records_.size() == 0) {
    const std::string why = num_invalid_ == 0 ? "" : fmt::format(": all {} samples were skipped; the first because {}", num_invalid_, first_invalid_);
    throw UserError({records_.description(), "the dataset is empty" + why, "training needs at least one sample", ""});
  }
}

/// Renders, and tokenises only what might be too long: a token holds at least one byte.
void ChatDataset::check(std::int64_t index) const {
  const std::string where = records_.where(index);
  const Conversation conversation = conversation_of(records_.record(index), where);
  if (!has_assistant(conversation)) throw UserError({where, "the conversation has no assistant's turn", "only the assistant's turns are learnt", ""});
  const std::int64_t bytes = conversation_bytes(conversation, context_, where);
  if (bytes < 2) throw UserError({where, "the conversation is empty", "a sample has something to read and something to predict", ""});
  if (!options_.truncate && context_.context_length > 0 && bytes > context_.context_length)
    conversation_sample(conversation, options_, context_, where);
}

void ChatDataset::leave_out_invalid() {
  std::vector<std::string> reasons(static_cast<std::size_t>(records_.size()));
  for_each_index(records_.size(), context_.num_threads, "checking conversations", [&](std::int64_t index) {
    try {
      check(index);
    } catch (const UserError& error) {
      const Problem& problem = error.problems().front();
      reasons[static_cast<std::size_t>(index)] = problem.where + ": " + problem.what;
    }
  });
  std::vector<std::int64_t> valid;
  for (std::int64_t index = 0; index < records_.size(); ++index) {
    const std::string& reason = reasons[static_cast<std::size_t>(index)];
    if (reason.empty()) valid.push_back(index);
    if (!reason.empty() && num_invalid_++ == 0) first_invalid_ = reason;
  }
  if (num_invalid_ > 0) records_.keep_only(valid);
}

Sample ChatDataset::sample(std::int64_t index) const {
  const std::string where = records_.where(index);
  Sample sample = conversation_sample(conversation_of(records_.record(index), where), options_, context_, where);
  sample.number = index;
  return sample;
}

std::string ChatDataset::description() const {
  std::string text = fmt::format("{} conversations from {}", records_.size(), records_.description());
  if (num_invalid_ > 0) text += fmt::format("; {} invalid sample(s) skipped, the first because {}", num_invalid_, first_invalid_);
  return text;
}

}  // namespace tessera::data
