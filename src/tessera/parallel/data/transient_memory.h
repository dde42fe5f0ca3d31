#pragma once

#include <cstdint>

#include "tessera/core/dtype.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/placement.h"
#include "tessera/parallel/data/policy.h"

namespace tessera::parallel {

/// The most bytes that a rank needs for a time during a step, in addition to what it keeps between steps: the arithmetic of DataParallelEngine.
struct TransientMemory {
  /// Whole weights of the units in use or gathered ahead, and whole gradients until they are reduced: while the loss runs, and in the units' passes.
  std::int64_t gathered_at_loss = 0;
  std::int64_t gathered_in_passes = 0;
  std::int64_t messages = 0;  ///< of the reductions under way: what arrives from other ranks, and copies in the wire dtype
};
/// `placement` is the policy's; shards are taken as equal. `frozen`: parameters without gradients; empty: none.
TransientMemory transient_memory(const model::ParameterTable& table, const DataParallelPolicy& policy, const model::Placement& placement,
                                 DType compute, std::int64_t num_microbatches, const model::ParameterPredicate& frozen = {});

}  // namespace tessera::parallel
