#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::ops {

/// Whether bf16 matrix products are worth calling here: always on GPUs; on CPUs a millisecond's measurement decides, once per process. With bf16
/// instructions (AVX512_BF16, AMX, Arm BF16) they are faster than fp32's, without them libtorch's are up to 150 × slower, and operators widen
/// instead.
bool has_bfloat16_gemm(const at::Tensor& tensor);

/// Rows of `a` that widened_matmul widens at once.
inline constexpr std::int64_t kWidenedRows = 1024;

/// output = a · b for bf16 operands of any strides, computed in fp32 from widened copies; a block of rows of `a` at a time, so that the copies
/// stay small. The output is fresh, [M, N], in bf16 or fp32.
at::Tensor widened_matmul(const at::Tensor& a_MK, const at::Tensor& b_KN, at::ScalarType output_type);

/// output_NO = a_NI · b_OIᵀ for fp32 `a`, fp32 `output` and contiguous bf16 `b`, in fp32: rows of `b` are widened a few at a time and multiplied
/// while they are in cache, so that no fp32 copy of a whole weight ever exists.
void mixed_matmul_nt_out(at::Tensor& output_NO, const at::Tensor& a_NI, const at::Tensor& b_OI);

}  // namespace tessera::ops
