#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"
#include "tessera/parallel/tensor/share.h"

namespace tessera::parallel {

struct TensorProjectionsOptions {
  bool sequence_parallel = false;
  /// With sequence parallelism: gathers and scatters go in parts, one for each rank's tokens, while the parts before are multiplied.
  bool overlap_chunks = false;
  TensorPlan plan = {};                ///< what is not cut, every rank computes
  std::int64_t vocab_size = 0;         ///< of the whole model
  std::int64_t query_width = 0;        ///< elements of all queries of a token, for norms over the whole projection
  std::int64_t key_width = 0;          ///< the same of keys
  std::int64_t key_value_holders = 1;  ///< ranks that hold the same key/value head
};

/// The decoder's projections over the ranks of `group`, which must outlive them; weights as tensor_parallel_table cuts them.
///
///   call           forward                                        backward
///   column_linear  copy (sequence parallel: all-gather)           all-reduce (reduce-scatter, and an all-gather of the input again), while the
///                                                                 weight's gradient is computed
///   row_linear     all-reduce (reduce-scatter)                    copy (all-gather)
///   embedding      all-reduce (reduce-scatter) of masked rows     copy (all-gather)
///   take_own       this rank's tokens (nothing)                   all-gather (nothing)
///   join_own       all-gather (nothing)                           this rank's tokens (nothing)
///   loss           copy (all-gather); per chunk of rows one       all-reduce (reduce-scatter)
///                  all-gather of log-sum-exps and targets
///
/// Under sequence parallelism the residual stream is cut evenly by tokens of the microbatch, whatever their rows: nothing is padded.
/// docs/parallelism.md counts the bytes.
std::unique_ptr<model::Projections> tensor_parallel_projections(comm::Communicator& group, const TensorProjectionsOptions& options);

}  // namespace tessera::parallel
