#include "tessera/data/dataset/squad.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/parallel.h"

namespace tessera::data {
namespace {

/// As in column_mapped.cpp: what a template adds to the texts.
constexpr std::int64_t kTemplateTokens = 256;

std::string first_answer(const OrderedJson& record, const std::string& where) {
  const auto answers = record.find("answers");
  if (answers == record.end()) throw_missing_column(record, "answers", where);
  const auto texts = answers->is_object() ? answers->find("text") : answers->end();
  if (!answers->is_object() || texts == answers->end() || !texts->is_array() || (!texts->empty() && !texts->front().is_string())) {
    throw UserError({where, "column 'answers' is not {\"text\": [\"…\"]}", "SQuAD's answers are an object with a list of texts", kCorrectRecord});
  }
  return texts->empty() ? "" : stripped(texts->front().get<std::string>());
}

}  // namespace

SquadDataset::SquadDataset(Records records, InstructionOptions options, DatasetContext context)
    : records_(std::move(records)), options_(options), context_(std::move(context)), long_samples_(options_, context_) {
  refuse_empty(records_);
  for_each_index(records_.size(), context_.num_threads, "checking samples", [this](std::int64_t index) { check(index); });
}

SquadDataset::Pair SquadDataset::pair(std::int64_t index) const {
  const OrderedJson record = records_.record(index);
  const std::string where = records_.where(index);
  return {fmt::format("Context: {} Question: {} Answer: ", needed_text(record, "context", where), needed_text(record, "question", where)),
          first_answer(record, where)};
}

void SquadDataset::check(std::int64_t index) {
  const Pair found = pair(index);
  const std::string where = records_.where(index);
  if (found.answer.empty()) throw UserError({where, "the answer is empty", "a sample needs something to learn", "remove the record, or complete it"});
  long_samples_.check(std::ssize(found.prompt) + std::ssize(found.answer) + kTemplateTokens, [&] { return make_sample(found, where); });
}

InstructionSample SquadDataset::make_sample(const Pair& pair, const std::string& where) const {
  if (!context_.chat_template) return prompt_completion_sample(pair.prompt, pair.answer, options_, context_, where);
  OrderedJson messages = OrderedJson::array();
  messages.push_back(OrderedJson{{"role", "user"}, {"content", pair.prompt}});
  messages.push_back(OrderedJson{{"role", "assistant"}, {"content", pair.answer}});
  return conversation_sample({messages}, options_, context_, where);
}

Sample SquadDataset::sample(std::int64_t index) const {
  Sample sample = make_sample(pair(index), records_.where(index));
  sample.number = index;
  return sample;
}

std::string SquadDataset::description() const {
  return fmt::format("{} SQuAD questions from {}{}", records_.size(), records_.description(), long_samples_.description());
}

}  // namespace tessera::data
