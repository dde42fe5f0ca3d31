#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace tessera::ops {

/// What dropout multiplies elements [first, first + width) of each row by, for composites: 0 or 1 / (1 − probability), [rows, width] with the dtype
/// and device of `options`. The same elements as the CPU kernels drop (cpu/dropout.h); made on the CPU by the plain functions there.
at::Tensor dropout_factors(std::span<const std::uint64_t> row_keys, std::int64_t width, double probability, const at::TensorOptions& options,
                           std::int64_t first = 0);

}  // namespace tessera::ops
