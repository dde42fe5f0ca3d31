#include "tessera/data/dataset/column_mapped.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/parallel.h"

namespace tessera::data {
namespace {

/// What a template may add to the texts.
constexpr std::int64_t kTemplateTokens = 256;

std::string prompt_of(const std::optional<std::string>& context, const std::optional<std::string>& question) {
  std::string prompt;
  if (context) prompt += *context + " ";
  if (question) prompt += *question + " ";
  return prompt;
}

std::optional<std::string> column(const OrderedJson& record, const std::optional<std::string>& name, const std::string& where) {
  return name ? text_column(record, *name, where) : std::nullopt;
}

}  // namespace

ColumnMappedDataset::ColumnMappedDataset(Records records, ColumnMappedOptions options, DatasetContext context)
    : records_(std::move(records)),
      options_(std::move(options)),
      columns_{options_.columns.answer},
      context_(std::move(context)),
      long_samples_(options_.instruction, context_) {
  for (const auto& name : {options_.columns.context, options_.columns.question})
    if (name) columns_.push_back(*name);
  refuse_empty(records_);
  check_columns();
  for_each_index(records_.size(), context_.num_threads, "checking samples", [this](std::int64_t index) { check(index); });
}

/// A later record may leave a column out, as JSON often does for what is empty; one that the first record lacks is a wrong mapping.
void ColumnMappedDataset::check_columns() const {
  const OrderedJson first = records_.record(0);
  ProblemList problems;
  for (const auto& name : {options_.columns.context, options_.columns.question, std::optional(options_.columns.answer)}) {
    if (!name || first.contains(*name)) continue;
    try {
      throw_missing_column(first, *name, records_.where(0));
    } catch (const UserError& error) {
      problems.add(error);
    }
  }
  problems.throw_if_any();
}

bool ColumnMappedDataset::uses_template() const { return options_.use_chat_template && context_.chat_template; }

ColumnMappedDataset::Pair ColumnMappedDataset::pair(std::int64_t index) const {
  const OrderedJson record = records_.record(index);
  const std::string where = records_.where(index);
  std::optional<std::string> answer = text_column(record, options_.columns.answer, where);
  if (!answer && !record.contains(options_.columns.answer)) throw_missing_column(record, options_.columns.answer, where);
  return {column(record, options_.columns.context, where), column(record, options_.columns.question, where), std::move(answer).value_or("")};
}

/// `pair` of a record that `check` has read.
ColumnMappedDataset::Pair ColumnMappedDataset::checked_pair(std::int64_t index) const {
  std::vector<std::optional<std::string>> texts = records_.texts(index, columns_);
  Pair pair{std::nullopt, std::nullopt, std::move(texts.front()).value_or("")};
  if (options_.columns.context) pair.context = std::move(texts[1]);
  if (options_.columns.question) pair.question = std::move(texts.back());
  return pair;
}

void ColumnMappedDataset::check(std::int64_t index) {
  const Pair found = pair(index);
  const std::string where = records_.where(index);
  if (found.answer.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw UserError({where, fmt::format("the answer (column '{}') is empty", options_.columns.answer), "a sample needs something to learn",
                     "remove the record, or complete it"});
  }
  if (!uses_template() && prompt_of(found.context, found.question).size() <= 1) {
    throw UserError({where, "the prompt is empty", "a sample has a context or a question before its answer", "remove the record, or complete it"});
  }
  const std::int64_t bytes = std::ssize(found.context.value_or("")) + std::ssize(found.question.value_or("")) + std::ssize(found.answer);
  long_samples_.check(bytes + kTemplateTokens, [&] { return make_sample(found, where); });
}

InstructionSample ColumnMappedDataset::make_sample(const Pair& pair, const std::string& where) const {
  if (!uses_template()) return prompt_completion_sample(prompt_of(pair.context, pair.question), pair.answer, options_.instruction, context_, where);
  OrderedJson messages = OrderedJson::array();
  const auto add = [&](const char* role, const std::string& content) { messages.push_back(OrderedJson{{"role", role}, {"content", content}}); };
  add("system", pair.context.value_or(""));
  add("user", pair.question.value_or(""));
  add("assistant", pair.answer);
  return conversation_sample({messages}, options_.instruction, context_, where);
}

/// Only a mistake needs the record's place, whose text would be a hundredth of the work: the record that has one is read again for it.
Sample ColumnMappedDataset::sample(std::int64_t index) const {
  Sample sample;
  try {
    sample = make_sample(checked_pair(index), "");
  } catch (const UserError&) {
    sample = make_sample(pair(index), records_.where(index));
  }
  sample.number = index;
  return sample;
}

std::string ColumnMappedDataset::description() const {
  return fmt::format("{} question-answer pairs from {}{}{}", records_.size(), records_.description(), uses_template() ? ", chat template" : "",
                     long_samples_.description());
}

}  // namespace tessera::data
