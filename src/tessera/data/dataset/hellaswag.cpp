#include "tessera/data/dataset/hellaswag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/checks.h"
#include "tessera/data/dataset/parallel.h"
#include "tessera/data/lengths.h"

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

}  // namespace

HellaSwagDataset::HellaSwagDataset(Records records, std::int64_t seq_length, bool pad, DatasetContext context)
    : records_(std::move(records)),
      seq_length_(seq_length),
      context_(std::move(context)),
      long_samples_({.seq_length = seq_length, .truncate = seq_length > 0}, context_) {
  refuse_empty(records_);
  for_each_index(records_.size(), context_.num_threads, "checking samples", [this](std::int64_t index) {
    const Pair texts = pair(index);
    long_samples_.check(std::ssize(texts.context) + std::ssize(texts.ending) + kSpecialTokens,
                        [&] { return make_sample(texts, records_.where(index)); });
  });
  if (!pad) return;
  const std::vector<std::int32_t> lengths = sample_lengths(*this, context_.num_threads);
  padded_length_ = (*std::ranges::max_element(lengths) + 7) / 8 * 8;
  if (context_.context_length > 0) padded_length_ = std::min(padded_length_, context_.context_length);
}

HellaSwagDataset::Pair HellaSwagDataset::pair(std::int64_t index) const {
  const OrderedJson record = records_.record(index);
  const std::string where = records_.where(index);
  Pair pair{needed_text(record, "ctx", where), ending_of(record, where)};
  if (pair.context.empty() || pair.ending.empty())
    throw UserError({where, "the context or the ending is empty", "a sample has something to read and something to learn", "remove the record"});
  return pair;
}

InstructionSample HellaSwagDataset::make_sample(const Pair& texts, const std::string& where) const {
  const Tokenizer& tokenizer = *context_.tokenizer;
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
  sample.labels.assign(context.size() - 1, ignored_label);
  sample.labels.insert(sample.labels.end(), ending.begin(), ending.end());
  sample.labels.push_back(ignored_label);
  if (seq_length_ > 0 && std::ssize(sample.input_ids) > seq_length_) {
    sample.num_cut = std::ssize(sample.input_ids) - seq_length_;
    sample.input_ids.resize(static_cast<std::size_t>(seq_length_));
    sample.labels.resize(static_cast<std::size_t>(seq_length_));
  }
  sample.padded_length = padded_length_;
  check_sample_fits(sample, context_, where);
  return sample;
}

Sample HellaSwagDataset::sample(std::int64_t index) const {
  Sample sample = make_sample(pair(index), records_.where(index));
  sample.number = index;
  return sample;
}

std::string HellaSwagDataset::description() const {
  const std::string padding = padded_length_ > 0 ? fmt::format(", padded to {} tokens", padded_length_) : "";
  return fmt::format("{} HellaSwag contexts with their endings from {}{}{}", records_.size(), records_.description(), padding,
                     long_samples_.description());
}

}  // namespace tessera::data
