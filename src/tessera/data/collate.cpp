#include "tessera/data/collate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

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

/// Values, then padding, over one row.
void fill_row(const std::vector<std::int64_t>& values, std::int64_t padding, std::span<std::int64_t> row) {
  const auto rest = std::copy(values.begin(), values.end(), row.begin());
  std::fill(rest, row.end(), padding);
}

/// Counts from 0 in each document; 0 in the padding, which may reach beyond the model's context.
void fill_position_ids(const Sample& sample, std::span<std::int64_t> row) {
  const auto count_up = [&](std::int64_t begin, std::int64_t end) { std::iota(row.begin() + begin, row.begin() + end, std::int64_t{0}); };
  const auto& starts = sample.document_starts;
  if (starts.empty()) count_up(0, length_of(sample));
  for (std::size_t document = 0; document < starts.size(); ++document)
    count_up(starts[document], document + 1 < starts.size() ? starts[document + 1] : length_of(sample));
  std::fill(row.begin() + length_of(sample), row.end(), std::int64_t{0});
}

void append_row(const Sample& sample, const CollateOptions& options, Batch& batch) {
  const auto begin = static_cast<std::size_t>(batch.rows++ * batch.length), length = static_cast<std::size_t>(batch.length);
  fill_row(sample.input_ids, options.pad_id, std::span(batch.input_ids).subspan(begin, length));
  fill_row(sample.labels, kIgnoredLabel, std::span(batch.labels).subspan(begin, length));
  fill_position_ids(sample, std::span(batch.position_ids).subspan(begin, length));
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

Batch collate(std::span<const Sample> samples, const CollateOptions& options, Batch spent) {
  TESSERA_ASSERT(!samples.empty() && options.pad_multiple >= 1, "a batch has rows and a padding multiple");
  Batch batch = std::move(spent);
  batch.rows = 0;
  batch.length = batch_length(samples, options);
  // What the spent batch left in the matrices is written over, every cell.
  const auto cells = samples.size() * static_cast<std::size_t>(batch.length);
  for (auto* matrix : {&batch.input_ids, &batch.labels, &batch.position_ids}) matrix->resize(cells);
  for (auto* column : {&batch.lengths, &batch.numbers}) column->clear();
  for (const Sample& sample : samples) {
    check_sample(sample);
    append_row(sample, options, batch);
  }
  batch.document_starts = document_starts_of(samples);
  return batch;
}

Batch filler_batch(const CollateOptions& options) {
  const Sample filler{.input_ids = {options.pad_id}, .labels = {kIgnoredLabel}, .number = kFillerNumber};
  return collate(std::span(&filler, 1), options);
}

}  // namespace tessera::data
