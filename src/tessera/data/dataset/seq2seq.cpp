#include "tessera/data/dataset/seq2seq.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/parallel.h"
#include "tessera/data/dataset/python_json.h"

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

}  // namespace

Seq2SeqDataset::Seq2SeqDataset(Records records, Seq2SeqColumns columns, InstructionOptions options, DatasetContext context)
    : records_(std::move(records)), columns_(std::move(columns)), options_(options), context_(std::move(context)), long_samples_(options_, context_) {
  refuse_empty(records_);
  for_each_index(records_.size(), context_.num_threads, "checking samples", [this](std::int64_t index) {
    const Pair found = pair(index);
    const std::string where = records_.where(index);
    if (found.target.empty())
      throw UserError({where, fmt::format("the target (column '{}') is empty", columns_.target_key), "a sample needs something to learn",
                       "remove the record, or complete it"});
    long_samples_.check(std::ssize(found.source) + std::ssize(found.target), [&] { return make_sample(found, where); });
  });
}

Seq2SeqDataset::Pair Seq2SeqDataset::pair(std::int64_t index) const {
  const OrderedJson record = records_.record(index);
  const std::string where = records_.where(index);
  const std::string source = columns_.source_template.empty() ? python_text(column(record, columns_.source_key, where))
                                                              : filled_template(columns_.source_template, record, where);
  return {source, target_text(column(record, columns_.target_key, where))};
}

InstructionSample Seq2SeqDataset::make_sample(const Pair& pair, const std::string& where) const {
  return prompt_completion_sample(pair.source + " ", pair.target, options_, context_, where);
}

Sample Seq2SeqDataset::sample(std::int64_t index) const {
  Sample sample = make_sample(pair(index), records_.where(index));
  sample.number = index;
  return sample;
}

std::string Seq2SeqDataset::description() const {
  return fmt::format("{} pairs of source and target from {}{}", records_.size(), records_.description(), long_samples_.description());
}

}  // namespace tessera::data
