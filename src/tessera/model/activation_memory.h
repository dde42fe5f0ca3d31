#pragma once

#include <cstdint>

#include "tessera/model/spec.h"
#include "tessera/model/summary.h"

namespace tessera::model {

/// The bytes of tensors that one microbatch needs at its peak beside weights, gradients and moments: what forward keeps for backward, and the largest
/// temporaries beside it, found by walking through the phases of a step (the loss's chunks, a block's backward, the last block's forward). What
/// kernels and the matrix-product library take for themselves, some megabytes a thread, is not in it. Every position counts as a label.
std::int64_t activation_bytes(const ModelSpec& spec, const MemoryRequest& request);

}  // namespace tessera::model
