#include "tessera/parallel/context/split.h"

#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

#include "tessera/core/labels.h"

namespace tessera::parallel {
namespace {

/// Adds one document's chunks to every rank's runs; returns how many places each rank needs for them.
std::int64_t add_document(std::int64_t begin, std::int64_t end, std::int64_t document, std::int64_t place, RowSplit& split) {
  const auto size = static_cast<std::int64_t>(split.runs_of_ranks.size());
  const std::int64_t length = end - begin, chunk = (length + 2 * size - 1) / (2 * size);
  for (std::int64_t rank = 0; rank < size; ++rank) {
    std::int64_t here = place;
    for (const std::int64_t number : {rank, 2 * size - 1 - rank}) {
      const std::int64_t first = std::min(number * chunk, length), last = std::min(first + chunk, length);
      if (first < last)
        split.runs_of_ranks[static_cast<std::size_t>(rank)].push_back(
            {.position = begin + first, .length = last - first, .place = here, .document = document});
      here += chunk;
    }
  }
  return 2 * chunk;
}

/// rows[b, t] of the places' tokens, `filler` at padding.
at::Tensor take(const at::Tensor& matrix_BT, const at::Tensor& indices, std::int64_t filler) {
  const at::Tensor values = at::index_select(matrix_BT.reshape({-1}), 0, indices.clamp_min(0));
  return values.masked_fill(indices.lt(0), filler).view({matrix_BT.size(0), -1});
}

}  // namespace

RowSplit split_row(std::int64_t length, const std::vector<std::int64_t>& document_starts, std::int64_t size) {
  RowSplit split;
  split.runs_of_ranks.resize(static_cast<std::size_t>(size));
  const std::vector<std::int64_t> starts = document_starts.empty() ? std::vector<std::int64_t>{0} : document_starts;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 == starts.size() ? length : starts[i + 1];
    split.width += add_document(starts[i], end, static_cast<std::int64_t>(i), split.width, split);
  }
  return split;
}

at::Tensor token_indices(const model::TokenRuns& runs, std::int64_t width, std::int64_t whole_length) {
  at::Tensor indices = at::full({static_cast<std::int64_t>(runs.size()) * width}, -1, at::kLong);
  std::int64_t* data = indices.data_ptr<std::int64_t>();
  for (std::size_t row = 0; row < runs.size(); ++row)
    for (const model::TokenRun& run : runs[row])
      for (std::int64_t i = 0; i < run.length; ++i)
        data[static_cast<std::int64_t>(row) * width + run.place + i] = static_cast<std::int64_t>(row) * whole_length + run.position + i;
  return indices;
}

ContextShare split_context(const model::Inputs& whole, const at::Tensor& labels_BT, std::int64_t size, std::int64_t rank) {
  if (size == 1) return {whole, labels_BT};
  const bool documents = !whole.document_starts.empty();
  std::vector<RowSplit> rows;
  std::int64_t width = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(whole.num_rows()); ++row) {
    rows.push_back(documents ? split_row(whole.lengths[row], whole.document_starts[row], size) : split_row(whole.length(), {}, size));
    width = std::max(width, rows.back().width);
  }
  ContextShare share{whole, labels_BT};
  share.inputs.context_rank = rank;
  share.inputs.runs_of_ranks.resize(static_cast<std::size_t>(size));
  for (const RowSplit& row : rows)
    for (std::size_t r = 0; r < row.runs_of_ranks.size(); ++r) share.inputs.runs_of_ranks[r].push_back(row.runs_of_ranks[r]);
  const at::Tensor indices = token_indices(share.inputs.runs_of_ranks[static_cast<std::size_t>(rank)], width, whole.length());
  share.inputs.input_ids_BT = take(whole.input_ids_BT, indices, 0);
  share.inputs.position_ids_BT = take(whole.position_ids_BT, indices, 0);
  share.inputs.whole_length = whole.length();
  share.labels_BT = take(labels_BT, indices, kIgnoredLabel);
  return share;
}

}  // namespace tessera::parallel
