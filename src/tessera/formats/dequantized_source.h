#pragma once

#include <memory>

#include "tessera/formats/tensor_source.h"

namespace tessera::formats {

/// Shows the quantised weights that Hugging Face checkpoints hold in two tensors as one of F32 under the weight's own name, computed as it is read:
///
/// - X.weight in F8_E4M3 with X.weight_scale_inv [rows / 128, columns / 128] (rounded up): each block of 128 × 128 values is multiplied by its scale.
/// - X_blocks [E, out, in / 32, 16] and X_scales [E, out, in / 32], both U8 (MXFP4; OCP Microscaling Formats 1.0): 32 values of four bits (E2M1, the
///   lower half of a byte first) times 2^(scale − 127). They appear as X [E, in, out], the order of gpt_oss's unquantised weights.
///
/// Other tensors are passed through; a source without quantised ones is returned as it is. UserError naming every quantised tensor whose scales are
/// missing or of another shape.
std::unique_ptr<TensorSource> dequantize_tensors(std::unique_ptr<TensorSource> source);

}  // namespace tessera::formats
