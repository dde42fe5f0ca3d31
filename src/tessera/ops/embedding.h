#pragma once

#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// output[n] = table[ids[n]] · scale. ids int64 [N], table [V, D]; output [N, D] in table.compute_type(). Ids must lie in [0, V).
Variable embedding(Tape& tape, const at::Tensor& ids_N, Parameter& table, double scale = 1.0);

}  // namespace tessera::ops
