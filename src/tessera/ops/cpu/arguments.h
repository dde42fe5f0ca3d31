#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/cross_entropy.h"

/// Argument structs of the kernels whose public functions (elementwise.h, cross_entropy.h) take plain arguments.
namespace tessera::ops::cpu {

struct SumOfSquares {
  const float* values;
  std::int64_t size;
  double* result;
};

struct FirstNonfinite {
  const float* values;
  std::int64_t size;
  std::int64_t* result;
};

struct Convert {
  const bfloat16* input;
  float* output;
  std::int64_t size;
};

template <class T>
struct ColumnSums {
  const T* input;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  float* total;
};

template <class T>
struct LogitsRowMax {
  LogitsChunk<T> chunk;
  float* row_max;
};

template <class T>
struct LogitsRowSumExp {
  LogitsChunk<T> chunk;
  const float* row_max;
  float* row_sum;
};

template <class T>
struct LogitsTarget {
  LogitsChunk<T> chunk;
  float* target_logit;
};

template <class T>
struct LogitsGradient {
  LogitsChunk<T> chunk;
  const float* lse;
  float gradient_scale;
};

template <class T>
struct CrossEntropySum {
  CrossEntropy<T> args;
  double* result;
};

}  // namespace tessera::ops::cpu
