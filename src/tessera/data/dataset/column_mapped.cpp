#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

std::string prompt_of(const std::optional<std::string>& context, const std::optional<std::string>& question) {
  std::string prompt;
  if (context) prompt += *context + " ";
  if (question) prompt += *question + " ";
  return prompt;
}

std::optional<std::string> column(const OrderedJson& record, const std::optional<std::string>& name, const std::string& where) {
  return name ? text_column(record, *name, where) : std::nullopt;
}

struct Pair {
  std::optional<std::string> context;
  std::optional<std::string> question;
  std::string answer;
};

Pair pair_of(const ColumnMapping& columns, const Records& from, std::int64_t index) {
  const OrderedJson record = from.record(index);
  const std::string where = from.where(index);
  std::optional<std::string> answer = text_column(record, columns.answer, where);
  if (!answer && !record.contains(columns.answer)) throw_missing_column(record, columns.answer, where);
  return {column(record, columns.context, where), column(record, columns.question, where), std::move(answer).value_or("")};
}

/// The same of a record that has been checked.
Pair checked_pair(const ColumnMapping& columns, const Records& from, std::int64_t index) {
  std::vector<std::string> names{columns.answer};
  for (const auto& name : {columns.context, columns.question})
    if (name) names.push_back(*name);
  std::vector<std::optional<std::string>> texts = from.texts(index, names);
  Pair pair{std::nullopt, std::nullopt, std::move(texts.front()).value_or("")};
  if (columns.context) pair.context = std::move(texts[1]);
  if (columns.question) pair.question = std::move(texts.back());
  return pair;
}

/// A later record may leave a column out, as JSON often does for what is empty; one that the first record lacks is a wrong mapping.
void check_columns(const ColumnMapping& columns, const Records& records) {
  const OrderedJson first = records.record(0);
  ProblemList problems;
  for (const auto& name : {columns.context, columns.question, std::optional(columns.answer)}) {
    if (!name || first.contains(*name)) continue;
    try {
      throw_missing_column(first, *name, records.where(0));
    } catch (const UserError& error) {
      problems.add(error);
    }
  }
  problems.throw_if_any();
}

std::int64_t check(const ColumnMapping& columns, bool uses_template, const Records& from, std::int64_t index) {
  const Pair found = pair_of(columns, from, index);
  const std::string where = from.where(index);
  if (found.answer.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw UserError({where, fmt::format("the answer (column '{}') is empty", columns.answer), "a sample needs something to learn",
                     "remove the record, or complete it"});
  }
  if (!uses_template && prompt_of(found.context, found.question).size() <= 1) {
    throw UserError({where, "the prompt is empty", "a sample has a context or a question before its answer", "remove the record, or complete it"});
  }
  return std::ssize(found.context.value_or("")) + std::ssize(found.question.value_or("")) + std::ssize(found.answer) + kTemplateTokens;
}

InstructionSample make_sample(const Pair& pair, const ColumnMappedOptions& options, const DatasetContext& context, const std::string& where) {
  if (!options.use_chat_template || !context.chat_template)
    return prompt_completion_sample(prompt_of(pair.context, pair.question), pair.answer, options.instruction, context, where);
  OrderedJson messages = OrderedJson::array();
  const auto add = [&](const char* role, const std::string& content) { messages.push_back(OrderedJson{{"role", role}, {"content", content}}); };
  add("system", pair.context.value_or(""));
  add("user", pair.question.value_or(""));
  add("assistant", pair.answer);
  return conversation_sample({messages}, options.instruction, context, where);
}

}  // namespace

std::unique_ptr<Dataset> column_mapped_dataset(Records records, const ColumnMappedOptions& options, const DatasetContext& context) {
  refuse_empty(records);
  check_columns(options.columns, records);
  const bool uses_template = options.use_chat_template && context.chat_template;
  RecordKind kind{.description = "question-answer pairs",
                  .instruction = options.instruction,
                  .check = nullptr,
                  .make_sample = nullptr,
                  .manner = uses_template ? ", chat template" : ""};
  kind.check = [columns = options.columns, uses_template](const Records& from, std::int64_t index) {
    return check(columns, uses_template, from, index);
  };
  // Only a mistake needs the record's place, whose text would be a hundredth of the work: the record that has one is read again for it.
  kind.make_sample = [options, context](const Records& from, std::int64_t index) {
    try {
      return make_sample(checked_pair(options.columns, from, index), options, context, "");
    } catch (const UserError&) {
      return make_sample(pair_of(options.columns, from, index), options, context, from.where(index));
    }
  };
  return std::make_unique<RecordDataset>(std::move(records), context, std::move(kind));
}

}  // namespace tessera::data
