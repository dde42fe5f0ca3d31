#pragma once

#include "tessera/comm/communicator.h"
#include "tessera/ops/norm.h"

namespace tessera::parallel {

/// Widths of the vectors that are normalised, over all ranks, and how many ranks hold the same key head.
struct SplitNormWidths {
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t key_holders = 1;
};

/// ops::query_key_norm over the whole projection (per_head false), whose heads lie over the ranks of `group`: sums of squares are all-reduced, one
/// message of two numbers a token in each direction. Where ranks hold the same key head, each has a share of its gradient.
ops::Variable split_query_key_norm(comm::Communicator& group, const SplitNormWidths& widths, ops::Tape& tape, const ops::Variable& query_key_value,
                                   ops::Parameter& query_weight, ops::Parameter& key_weight, const ops::QueryKeyNormOptions& options);

}  // namespace tessera::parallel
