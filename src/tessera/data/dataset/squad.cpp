#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

std::string first_answer(const OrderedJson& record, const std::string& where) {
  const auto answers = record.find("answers");
  if (answers == record.end()) throw_missing_column(record, "answers", where);
  const auto texts = answers->is_object() ? answers->find("text") : answers->end();
  if (!answers->is_object() || texts == answers->end() || !texts->is_array() || (!texts->empty() && !texts->front().is_string())) {
    throw UserError({where, "column 'answers' is not {\"text\": [\"…\"]}", "SQuAD's answers are an object with a list of texts", kCorrectRecord});
  }
  return texts->empty() ? "" : stripped(texts->front().get<std::string>());
}

struct Question {
  std::string prompt;
  std::string answer;
};

Question question_of(const Records& from, std::int64_t index) {
  const OrderedJson record = from.record(index);
  const std::string where = from.where(index);
  return {fmt::format("Context: {} Question: {} Answer: ", needed_text(record, "context", where), needed_text(record, "question", where)),
          first_answer(record, where)};
}

std::int64_t check_question(const Records& from, std::int64_t index) {
  const auto [prompt, answer] = question_of(from, index);
  if (answer.empty())
    throw UserError({from.where(index), "the answer is empty", "a sample needs something to learn", "remove the record, or complete it"});
  return std::ssize(prompt) + std::ssize(answer) + kTemplateTokens;
}

}  // namespace

std::unique_ptr<Dataset> squad_dataset(Records records, const InstructionOptions& options, const DatasetContext& context) {
  const auto make_sample = [options, context](const Records& from, std::int64_t index) {
    const auto [prompt, answer] = question_of(from, index);
    if (!context.chat_template) return prompt_completion_sample(prompt, answer, options, context, from.where(index));
    OrderedJson messages = OrderedJson::array();
    messages.push_back(OrderedJson{{"role", "user"}, {"content", prompt}});
    messages.push_back(OrderedJson{{"role", "assistant"}, {"content", answer}});
    return conversation_sample({messages}, options, context, from.where(index));
  };
  return std::make_unique<RecordDataset>(
      std::move(records), context,
      RecordKind{.description = "SQuAD questions", .instruction = options, .check = check_question, .make_sample = make_sample});
}

}  // namespace tessera::data
