#include "tessera/data/collate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

std::int64_t length_of(const Sample& sample) { return static_cast<std::int64_t>(sample.input_ids.size()); }

std::int64_t batch_length(std::span<const Sample> samples, const CollateOptions& options) {
  std::int64_t longest = 1;
  for (const Sample& sample : samples) longest = std::max({longest, length_of(sample), sample.padded_length});
  if (options.fixed_length > 0) {
    if (longest > options.fixed_length) {
      throw UserError({"", fmt::format("a sample has {} tokens, but every row is to have {}", longest, options.fixed_length),
                       "with a fixed length no sample may be longer", "truncate the samples, or raise the length"});
    }
    return options.fixed_length;
  }
  return (longest + options.pad_multiple - 1) / options.pad_multiple * options.pad_multiple;
}

void check_sample(const Sample& sample) {
  TESSERA_ASSERT(!sample.input_ids.empty(), "a sample has at least one token");
  TESSERA_ASSERT(sample.input_ids.size() == sample.labels.size(), "one label for each token");
  const auto& starts = sample.document_starts;
  TESSERA_ASSERT(starts.empty() || (starts.front() == 0 && starts.back() < length_of(sample) && std::is_sorted(starts.begin(), starts.end())),
                 "document starts ascend from 0 inside the sample");
}

/// [length]: counts from 0 in each document; 0 in the padding, which may reach beyond the model's context.
void append_position_ids(const Sample& sample, std::int64_t length, std::vector<std::int64_t>& position_ids) {
  const auto row = static_cast<std::ptrdiff_t>(position_ids.size());
  position_ids.resize(position_ids.size() + static_cast<std::size_t>(length), 0);
  const auto count_up = [&](std::int64_t begin, std::int64_t end) {
    std::iota(position_ids.begin() + row + begin, position_ids.begin() + row + end, std::int64_t{0});
  };
  const auto& starts = sample.document_starts;
  if (starts.empty()) count_up(0, length_of(sample));
  for (std::size_t document = 0; document < starts.size(); ++document)
    count_up(starts[document], document + 1 < starts.size() ? starts[document + 1] : length_of(sample));
}

void append_row(const Sample& sample, const CollateOptions& options, Batch& batch) {
  const auto end = static_cast<std::size_t>(++batch.rows * batch.length);
  batch.input_ids.insert(batch.input_ids.end(), sample.input_ids.begin(), sample.input_ids.end());
  batch.input_ids.resize(end, options.pad_id);
  batch.labels.insert(batch.labels.end(), sample.labels.begin(), sample.labels.end());
  batch.labels.resize(end, ignored_label);
  append_position_ids(sample, batch.length, batch.position_ids);
  batch.lengths.push_back(length_of(sample));
  batch.numbers.push_back(sample.number);
}

/// Rows without boundaries of their own are one document each.
std::vector<std::vector<std::int64_t>> document_starts_of(std::span<const Sample> samples) {
  if (std::all_of(samples.begin(), samples.end(), [](const Sample& sample) { return sample.document_starts.size() <= 1; })) return {};
  std::vector<std::vector<std::int64_t>> starts;
  for (const Sample& sample : samples) starts.push_back(sample.document_starts.empty() ? std::vector<std::int64_t>{0} : sample.document_starts);
  return starts;
}

}  // namespace

Batch collate(std::span<const Sample> samples, const CollateOptions& options) {
  TESSERA_ASSERT(!samples.empty() && options.pad_multiple >= 1, "a batch has rows and a padding multiple");
  Batch batch;
  batch.length = batch_length(samples, options);
  const auto cells = samples.size() * static_cast<std::size_t>(batch.length);
  for (auto* matrix : {&batch.input_ids, &batch.labels, &batch.position_ids}) matrix->reserve(cells);
  for (const Sample& sample : samples) {
    check_sample(sample);
    append_row(sample, options, batch);
  }
  batch.document_starts = document_starts_of(samples);
  return batch;
}

Batch filler_batch(const CollateOptions& options) {
  const Sample filler{.input_ids = {options.pad_id}, .labels = {ignored_label}, .number = filler_number};
  return collate(std::span(&filler, 1), options);
}

}  // namespace tessera::data
