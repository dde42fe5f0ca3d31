#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

/// Whether this machine multiplies bf16 matrices in hardware (AVX512_BF16, AMX, Arm BF16, any GPU). Where it does not, libtorch's bf16 GEMM is
/// 8 to 150 × slower than its fp32 one, so operators widen instead.
bool has_bfloat16_gemm(const at::Tensor& tensor);

/// output = a · b for bf16 operands of any strides, computed in fp32 from widened copies; a block of rows of `a` at a time, so that the copies
/// stay small. The output is fresh, [M, N], in bf16 or fp32.
at::Tensor widened_matmul(const at::Tensor& a_MK, const at::Tensor& b_KN, at::ScalarType output_type);

}  // namespace tessera::ops
