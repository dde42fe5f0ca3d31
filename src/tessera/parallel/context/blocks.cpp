#include "tessera/parallel/context/blocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>

#include "tessera/comm/values.h"

namespace tessera::parallel {

std::vector<RowGroup> row_groups(const model::Inputs& inputs) {
  if (inputs.document_starts.empty()) return {{0, inputs.num_rows()}};
  std::vector<RowGroup> groups;
  for (std::int64_t row = 0; row < inputs.num_rows(); ++row) groups.push_back({row, 1});
  return groups;
}

const std::vector<model::TokenRun>& runs_of(const model::Inputs& inputs, std::int64_t rank, const RowGroup& group) {
  return inputs.runs_of_ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(group.first)];
}

bool reaches(const model::TokenRun& query, const model::TokenRun& key, const ops::AttentionOptions& options) {
  const std::int64_t last_query = query.position + query.length - 1, last_key = key.position + key.length - 1;
  if (query.document != key.document || key.position > last_query) return false;
  return !options.sliding_window || query.position - last_key < *options.sliding_window;
}

ops::AttentionOptions options_between(const ops::AttentionOptions& options, const RowGroup& group, std::int64_t query_start, std::int64_t key_start) {
  const auto part = [&](const std::vector<std::int64_t>& of_rows) {
    if (of_rows.empty()) return of_rows;
    return std::vector<std::int64_t>(of_rows.begin() + group.first, of_rows.begin() + group.first + group.count);
  };
  ops::AttentionOptions result = options;
  result.query_start = query_start;
  result.key_start = key_start;
  result.lengths = part(options.lengths);
  result.sample_numbers = part(options.sample_numbers);
  result.document_starts.clear();
  return result;
}

at::Tensor tokens_of(const at::Tensor& tensor_BT, const RowGroup& group, const model::TokenRun& run) {
  return group.of(tensor_BT).narrow(1, run.place, run.length);
}

TokenPlaces::TokenPlaces(const model::Inputs& inputs)
    : num_places_(std::ssize(inputs.runs_of_ranks) * inputs.num_rows() * inputs.length()),
      places_(at::full({inputs.num_rows() * inputs.whole_length}, -1, at::kLong)) {
  const std::int64_t rows = inputs.num_rows(), width = inputs.length();
  std::int64_t* data = places_.data_ptr<std::int64_t>();
  for (std::size_t rank = 0; rank < inputs.runs_of_ranks.size(); ++rank)
    for (std::size_t row = 0; row < inputs.runs_of_ranks[rank].size(); ++row)
      for (const model::TokenRun& run : inputs.runs_of_ranks[rank][row])
        for (std::int64_t i = 0; i < run.length; ++i)
          data[static_cast<std::int64_t>(row) * inputs.whole_length + run.position + i] =
              (static_cast<std::int64_t>(rank) * rows + static_cast<std::int64_t>(row)) * width + run.place + i;
  somewhere_ = at::nonzero(places_.ge(0)).squeeze(1);
}

at::Tensor TokenPlaces::to_tokens(const at::Tensor& by_place) const { return at::index_select(by_place, 0, places_.clamp_min(0)); }

at::Tensor TokenPlaces::to_places(const at::Tensor& by_token) const {
  std::vector<std::int64_t> sizes = by_token.sizes().vec();
  sizes[0] = num_places_;
  return at::zeros(sizes, by_token.options()).index_copy_(0, places_.index_select(0, somewhere_), at::index_select(by_token, 0, somewhere_));
}

at::Tensor gather_tokens(comm::Communicator& group, const model::Inputs& inputs, const at::Tensor& share_NW) {
  at::Tensor all = at::empty({group.size() * share_NW.size(0), share_NW.size(1)}, share_NW.options());
  group.all_gather(share_NW.contiguous(), comm::equal_counts(group, share_NW.numel()), all).wait();
  return TokenPlaces(inputs).to_tokens(all);
}

}  // namespace tessera::parallel
