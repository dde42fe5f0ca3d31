#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Sum of squares in fp64 over fixed blocks, added in order: independent of the number of threads.
double sum_of_squares(const float* values, std::int64_t size, Isa isa = best_isa());
/// Index of the first NaN or infinity, or -1.
std::int64_t first_nonfinite(const float* values, std::int64_t size, Isa isa = best_isa());

void convert(const bfloat16* input, float* output, std::int64_t size, Isa isa = best_isa());

/// total[c] += sum over rows of input[r, c] (bias gradients); fixed order whatever the number of threads.
void add_column_sums(const float* input, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, float* total, Isa isa = best_isa());
void add_column_sums(const bfloat16* input, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, float* total, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
