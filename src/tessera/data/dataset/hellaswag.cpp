#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/checks.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

/// What the tokenizer may add to the two texts.
constexpr std::int64_t kSpecialTokens = 16;

/// Which ending is right. The test split has no labels.
std::int64_t label_of(const OrderedJson& record, const std::string& where) {
  const auto label = record.find("label");
  if (label == record.end()) throw_missing_column(record, "label", where);
  if (label->is_number_integer()) return label->get<std::int64_t>();
  std::int64_t number = -1;
  if (label->is_string()) {
    const auto& text = label->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  throw UserError({where, fmt::format("the label is {}, not a number", label->dump()), "it says which ending is right",
                   "use a split that has labels, train or validation"});
}

std::string ending_of(const OrderedJson& record, const std::string& where) {
  const auto endings = record.find("endings");
  if (endings == record.end()) throw_missing_column(record, "endings", where);
  const std::int64_t label = label_of(record, where);
  if (!endings->is_array() || label < 0 || label >= std::ssize(*endings) || !(*endings)[static_cast<std::size_t>(label)].is_string())
    throw UserError({where, fmt::format("there is no text number {} in 'endings'", label), "endings are a list of texts, of which the label is one",
                     kCorrectRecord});
  return (*endings)[static_cast<std::size_t>(label)].get<std::string>();
}

struct Continuation {
  std::string context;
  std::string ending;
};

Continuation continuation_of(const Records& from, std::int64_t index) {
  const OrderedJson record = from.record(index);
  const std::string where = from.where(index);
  Continuation continuation{needed_text(record, "ctx", where), ending_of(record, where)};
  if (continuation.context.empty() || continuation.ending.empty())
    throw UserError({where, "the context or the ending is empty", "a sample has something to read and something to learn", "remove the record"});
  return continuation;
}

std::int64_t check_continuation(const Records& from, std::int64_t index) {
  const auto [context, ending] = continuation_of(from, index);
  return std::ssize(context) + std::ssize(ending) + kSpecialTokens;
}

InstructionSample make_sample(const Continuation& texts, std::int64_t seq_length, const Tokenizer& tokenizer, const std::string& where) {
  std::vector<TokenId> context = tokenizer.encode(texts.context, true);
  std::vector<TokenId> ending = tokenizer.encode(texts.ending, true);
  if (tokenizer.is_special(context.back())) context.pop_back();
  if (tokenizer.is_special(ending.front())) ending.erase(ending.begin());
  if (context.empty() || ending.empty())
    throw UserError(
        {where, "the context or the ending has no tokens of its own", "a sample has something to read and something to learn", kCorrectRecord});

  InstructionSample sample;
  sample.input_ids.assign(context.begin(), context.end());
  sample.input_ids.insert(sample.input_ids.end(), ending.begin(), ending.end());
  sample.labels.assign(context.size() - 1, kIgnoredLabel);
  sample.labels.insert(sample.labels.end(), ending.begin(), ending.end());
  sample.labels.push_back(kIgnoredLabel);
  if (seq_length > 0 && std::ssize(sample.input_ids) > seq_length) {
    sample.num_cut = std::ssize(sample.input_ids) - seq_length;
    sample.input_ids.resize(static_cast<std::size_t>(seq_length));
    sample.labels.resize(static_cast<std::size_t>(seq_length));
  }
  return sample;
}

}  // namespace

std::unique_ptr<Dataset> hellaswag_dataset(Records records, std::int64_t seq_length, bool pad, const DatasetContext& context) {
  RecordKind kind{.description = "HellaSwag contexts with their endings",
                  .instruction = {.seq_length = seq_length, .truncate = seq_length > 0},
                  .pad_to_longest = pad,
                  .check = check_continuation,
                  .make_sample = nullptr};
  kind.make_sample = [seq_length, context](const Records& from, std::int64_t index) {
    const std::string where = from.where(index);
    InstructionSample sample = make_sample(continuation_of(from, index), seq_length, *context.tokenizer, where);
    check_sample_fits(sample, context, where);
    return sample;
  };
  return std::make_unique<RecordDataset>(std::move(records), context, std::move(kind));
}

}  // namespace tessera::data
