#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/model/inputs.h"
#include "tessera/ops/attention.h"

namespace tessera::parallel {

/// Rows that are cut alike, so that one call serves them all: the whole microbatch when rows are single documents, else each row by itself.
struct RowGroup {
  std::int64_t first = 0;
  std::int64_t count = 0;

  at::Tensor of(const at::Tensor& rows_first) const { return rows_first.narrow(0, first, count); }
};
std::vector<RowGroup> row_groups(const model::Inputs& inputs);

/// The runs of one rank in the rows of a group.
const std::vector<model::TokenRun>& runs_of(const model::Inputs& inputs, std::int64_t rank, const RowGroup& group);

/// Whether any query of one run sees any key of the other.
bool reaches(const model::TokenRun& query, const model::TokenRun& key, const ops::AttentionOptions& options);

/// `options` for the rows of a group, with queries from one position on and keys from another, all of one document.
ops::AttentionOptions options_between(const ops::AttentionOptions& options, const RowGroup& group, std::int64_t query_start, std::int64_t key_start);

/// [B, T, …] to the tokens of a run.
at::Tensor tokens_of(const at::Tensor& tensor_BT, const RowGroup& group, const model::TokenRun& run);

/// Between the tokens of the whole rows [B · T, …] and the places that they have in the ranks' shares laid end to end [n · B · T', …].
class TokenPlaces {
 public:
  explicit TokenPlaces(const model::Inputs& inputs);
  /// Tokens that no rank has (padding) hold anything.
  at::Tensor to_tokens(const at::Tensor& by_place) const;
  /// Places without a token are zero.
  at::Tensor to_places(const at::Tensor& by_token) const;

 private:
  std::int64_t num_places_;
  at::Tensor places_;     ///< int64 [B · T]: of each token; −1: nowhere
  at::Tensor somewhere_;  ///< int64: the tokens that have a place
};

/// The whole rows' [B · T, W] from every rank's share [B · T', W]; rows that no rank has hold anything. All ranks of the group call it.
at::Tensor gather_tokens(comm::Communicator& group, const model::Inputs& inputs, const at::Tensor& share_NW);

}  // namespace tessera::parallel
