#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/model/inputs.h"

namespace tessera::parallel {

/// Which tokens of one row each rank of cp has. Every document [start, end) is cut into 2 · size chunks of equal length (the last ones shorter or
/// empty), of which rank r has numbers r and 2 · size − 1 − r: under causal attention all ranks then have the same work (as in ring-flash-attention's
/// "zigzag" and Megatron's load-balanced split). `width` is what every rank's share of the row is padded to.
struct RowSplit {
  std::vector<std::vector<model::TokenRun>> runs_of_ranks;
  std::int64_t width = 0;
};
/// `document_starts`: ascending from 0; empty: one document. Tokens from `length` on belong to no rank.
RowSplit split_row(std::int64_t length, const std::vector<std::int64_t>& document_starts, std::int64_t size);

/// One rank's share of a microbatch.
struct ContextShare {
  model::Inputs inputs;
  at::Tensor labels_BT;  ///< −100 at padding
};
/// Rows that are one document are cut over their padded length, so that all rows are cut alike. With size 1: everything.
ContextShare split_context(const model::Inputs& whole, const at::Tensor& labels_BT, std::int64_t size, std::int64_t rank);

/// For each place of a rank's share [B · width], the token of the whole rows [B · T] that is there; −1: padding. Int64.
at::Tensor token_indices(const model::TokenRuns& runs, std::int64_t width, std::int64_t whole_length);

}  // namespace tessera::parallel
