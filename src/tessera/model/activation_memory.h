#pragma once

#include <cstdint>

#include "tessera/model/spec.h"
#include "tessera/model/summary.h"

namespace tessera::model {

/// The bytes of tensors that one microbatch needs in addition to weights, gradients and moments: what forward keeps for backward, and the largest
/// temporaries at the same time, found by walking through the phases of a step. The memory of kernels and the matrix-product library themselves, some
/// megabytes a thread, is not included. Every position counts as a label.
struct ActivationBytes {
  std::int64_t kept = 0;    ///< from forward to backward
  std::int64_t loss = 0;    ///< while the loss's chunks run, `kept` included
  std::int64_t blocks = 0;  ///< at the last block's forward or a block's backward, likewise
  std::int64_t most() const { return loss > blocks ? loss : blocks; }
};
ActivationBytes activation_bytes(const ModelSpec& spec, const MemoryRequest& request);

}  // namespace tessera::model
