#pragma once

#include <cstddef>
#include <span>

#include "tessera/formats/gguf.h"

namespace tessera::formats {

/// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.
bool can_dequantize(GgmlType type);
/// Whole blocks to floats; `blocks` holds out.size() / block_elements of them. Bit for bit what the `gguf` Python package computes. Requires
/// can_dequantize.
void dequantize(GgmlType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace tessera::formats
