#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// output[M, N] = input[M, K] · W[N, K]ᵀ + bias for few rows (decoding): bound by reading W once. bf16 is widened to fp32 on the fly, sums are fp32.
/// Any M is correct; up to 8 rows share one pass over W. Instantiated for (float, float), (bfloat16, bfloat16), (float, bfloat16).
template <class T, class W>
struct ThinGemm {
  std::int64_t rows = 0;     ///< M
  std::int64_t inputs = 0;   ///< K
  std::int64_t outputs = 0;  ///< N
  const T* input = nullptr;
  std::int64_t input_stride = 0;
  const W* weight = nullptr;  ///< [N, K], contiguous
  const T* bias = nullptr;    ///< [N] or null
  T* output = nullptr;
  std::int64_t output_stride = 0;
};
template <class T, class W>
void thin_gemm(const ThinGemm<T, W>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
