#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/python_json.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

const OrderedJson& column(const OrderedJson& record, const std::string& name, const std::string& where) {
  const auto found = record.find(name);
  if (found == record.end()) throw_missing_column(record, name, where);
  return *found;
}

/// Python's str.format with columns for names; "{{" and "}}" are braces.
std::string filled_template(const std::string& text, const OrderedJson& record, const std::string& where) {
  std::string filled;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char character = text[at];
    const bool doubled = (character == '{' || character == '}') && at + 1 < text.size() && text[at + 1] == character;
    if (doubled || (character != '{' && character != '}')) {
      filled += character;
      at += doubled;
      continue;
    }
    const std::size_t close = character == '{' ? text.find('}', at) : std::string::npos;
    if (close == std::string::npos)
      throw UserError({"", "source_template has a brace without its partner", "columns stand in braces: {question}", "write a plain brace twice"});
    filled += python_text(column(record, text.substr(at + 1, close - at - 1), where));
    at = close;
  }
  return filled;
}

/// A text, the first of a list of them, or the first of SQuAD's answers.
std::string target_text(const OrderedJson& value) {
  if (value.is_object() && value.contains("text")) return target_text(value["text"]);
  if (value.is_array()) return value.empty() ? "" : target_text(value.front());
  return value.is_null() ? "" : stripped(python_text(value));
}

struct Pair {
  std::string source;
  std::string target;
};

Pair pair_of(const Seq2SeqColumns& columns, const Records& from, std::int64_t index) {
  const OrderedJson record = from.record(index);
  const std::string where = from.where(index);
  const std::string source = columns.source_template.empty() ? python_text(column(record, columns.source_key, where))
                                                             : filled_template(columns.source_template, record, where);
  return {source, target_text(column(record, columns.target_key, where))};
}

std::int64_t check(const Seq2SeqColumns& columns, const Records& from, std::int64_t index) {
  const auto [source, target] = pair_of(columns, from, index);
  if (target.empty())
    throw UserError({from.where(index), fmt::format("the target (column '{}') is empty", columns.target_key), "a sample needs something to learn",
                     "remove the record, or complete it"});
  return std::ssize(source) + std::ssize(target);
}

}  // namespace

std::unique_ptr<Dataset> seq2seq_dataset(Records records, const Seq2SeqColumns& columns, const InstructionOptions& options,
                                         const DatasetContext& context) {
  RecordKind kind{.description = "pairs of source and target", .instruction = options, .check = nullptr, .make_sample = nullptr};
  kind.check = [columns](const Records& from, std::int64_t index) { return check(columns, from, index); };
  kind.make_sample = [columns, options, context](const Records& from, std::int64_t index) {
    const auto [source, target] = pair_of(columns, from, index);
    return prompt_completion_sample(source + " ", target, options, context, from.where(index));
  };
  return std::make_unique<RecordDataset>(std::move(records), context, std::move(kind));
}

}  // namespace tessera::data
