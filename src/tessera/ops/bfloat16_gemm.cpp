#include "tessera/ops/bfloat16_gemm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace tessera::ops {
namespace {

// Widening b costs 4 bytes an element once; blocks of a this tall keep their copy in cache without starving the GEMM.
constexpr std::int64_t kBlockRows = 1024;

bool cpu_has_bfloat16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__ARM_FEATURE_BF16)
  return true;
#else
  return false;
#endif
}

}  // namespace

bool has_bfloat16_gemm(const at::Tensor& tensor) {
  static const bool cpu = cpu_has_bfloat16();
  return !tensor.device().is_cpu() || cpu;
}

at::Tensor widened_matmul(const at::Tensor& a_MK, const at::Tensor& b_KN, at::ScalarType output_type) {
  const std::int64_t rows = a_MK.size(0);
  at::Tensor output = at::empty({rows, b_KN.size(1)}, a_MK.options().dtype(output_type));
  const at::Tensor wide_b = b_KN.to(at::kFloat);
  for (std::int64_t row = 0; row < rows; row += kBlockRows) {
    const std::int64_t count = std::min(kBlockRows, rows - row);
    at::Tensor block = output.narrow(0, row, count);
    const at::Tensor wide_a = a_MK.narrow(0, row, count).to(at::kFloat);
    if (output_type == at::kFloat) {
      at::mm_out(block, wide_a, wide_b);
    } else {
      block.copy_(at::mm(wide_a, wide_b));
    }
  }
  return output;
}

}  // namespace tessera::ops
