#pragma once

#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// output_NO = input_NI · weight_OIᵀ (+ bias_O). Input contiguous [N, I]; weight [O, I]; output in the input's dtype. A widened weight (fp32 input,
/// bf16 weight, fp32 bias) has no backward. Backward: dinput = doutput · weight; the weight's and bias's gradients go to their accumulators, or to
/// the parameter's queue.
Variable linear(Tape& tape, const Variable& input_NI, Parameter& weight, Parameter* bias = nullptr);

/// The two halves of it, for operators that communicate in between. Forward: without tape; `bias_O` may be undefined; the thin kernel where there are
/// few rows. Backward: the weight's and bias's gradients, to their accumulators or queues.
at::Tensor linear_forward(const at::Tensor& input_NI, const at::Tensor& weight_OI, const at::Tensor& bias_O = {});
void deliver_linear_gradients(Parameter& weight, Parameter* bias, const at::Tensor& gradient_NO, const Saved& input_NI);
/// The bias's alone.
void deliver_bias_gradient(Parameter& bias, const at::Tensor& gradient_NO);

/// a_NI · b_OIᵀ, a_NO · b_OI and a_NOᵀ · b_NI: the three products of a linear operator. On CPUs without bf16 matrix instructions bf16 operands
/// are widened block by block and multiplied in fp32 (at least as accurate, and faster there: see bfloat16_gemm.h). matmul_nt also takes fp32 `a`
/// with bf16 `b`.
at::Tensor matmul_nt(const at::Tensor& a_NI, const at::Tensor& b_OI);
at::Tensor matmul_nn(const at::Tensor& a_NO, const at::Tensor& b_OI);
/// The first two into an output that exists: a chunked operator's buffer is allocated, and its pages cleared, once.
void matmul_nt_out(at::Tensor& output_NO, const at::Tensor& a_NI, const at::Tensor& b_OI);
void matmul_nn_out(at::Tensor& output_NI, const at::Tensor& a_NO, const at::Tensor& b_OI);
/// gradient (+)= a_NOᵀ · b_NI, into the parameter's accumulator.
void accumulate_weight_gradient(Parameter& weight, const at::Tensor& a_NO, const at::Tensor& b_NI);

}  // namespace tessera::ops
