#pragma once

#include <cstdint>
#include <span>

#include "tessera/core/dtype.h"

namespace tessera::comm {

enum class ReduceOperation : std::uint8_t { Sum, Max, Min };

/// One rank's contribution to a reduction: `count` elements of `dtype`.
struct Part {
  const void* data = nullptr;
  DType dtype{};
};

/// Whether sums, maxima and minima of this type are made: fp32, bf16, fp16, fp64, int32, int64, uint8.
bool is_reducible(DType dtype);
bool is_floating(DType dtype);

/// output[i] = op over parts of part[i], in the order of the parts. Floating-point parts are widened to fp32 (to fp64 when any dtype here is fp64)
/// and the result rounded once, to nearest even; integers are exact (sums wrap around) and all of one dtype. Maxima and minima of a NaN are NaN.
/// `output` may be one of the parts when it has that part's dtype.
void reduce_parts(std::span<const Part> parts, ReduceOperation operation, void* output, DType output_dtype, std::int64_t count);

/// output[i] = input[i] in another floating-point dtype, rounded to nearest even; a copy when the dtypes are equal (they need not be floating then).
void round_elements(const void* input, DType input_dtype, void* output, DType output_dtype, std::int64_t count);

}  // namespace tessera::comm
