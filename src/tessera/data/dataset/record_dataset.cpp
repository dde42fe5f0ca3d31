#include "tessera/data/dataset/record_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/data/dataset/for_each_index.h"
#include "tessera/data/lengths.h"

namespace tessera::data {

RecordDataset::RecordDataset(Records records, const DatasetContext& context, RecordKind kind)
    : records_(std::move(records)), kind_(std::move(kind)), long_samples_(kind_.instruction, context) {
  refuse_empty(records_);
  for_each_index(records_.size(), context.num_threads, "checking samples", [this](std::int64_t index) {
    long_samples_.check(kind_.check(records_, index), [&] { return kind_.make_sample(records_, index); });
  });
  if (!kind_.pad_to_longest) return;
  const std::vector<std::int32_t> lengths = sample_lengths(*this, context.num_threads);
  padded_length_ = (std::int64_t{*std::ranges::max_element(lengths)} + 7) / 8 * 8;
  if (context.context_length > 0) padded_length_ = std::min(padded_length_, context.context_length);
  kind_.manner += fmt::format(", padded to {} tokens", padded_length_);
}

Sample RecordDataset::sample(std::int64_t index) const {
  Sample sample = kind_.make_sample(records_, index);
  sample.number = index;
  if (padded_length_ > 0) sample.padded_length = padded_length_;
  return sample;
}

std::string RecordDataset::description() const {
  return fmt::format("{} {} from {}{}{}", records_.size(), kind_.description, records_.description(), kind_.manner, long_samples_.description());
}

}  // namespace tessera::data
