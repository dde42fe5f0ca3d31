#include "tessera/ops/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "tessera/ops/bfloat16_gemm.h"
#include "tessera/ops/cpu/elementwise.h"
#include "tessera/ops/cpu/thin_gemm.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

// Up to this many rows a product is bound by reading the weight, and the thin kernel beats a GEMM.
constexpr std::int64_t kThinRows = 8;

bool widens(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16 && !has_bfloat16_gemm(tensor); }

/// fp32 activations with a bf16 weight: see Parameter::widened.
bool is_mixed(const at::Tensor& input, const at::Tensor& weight) {
  return input.scalar_type() == at::kFloat && weight.scalar_type() == at::kBFloat16;
}

template <class T, class W>
at::Tensor thin_linear_of(const at::Tensor& input_NI, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  at::Tensor output = at::empty({input_NI.size(0), weight_OI.size(0)}, input_NI.options());
  cpu::thin_gemm<T, W>({.rows = input_NI.size(0),
                        .inputs = input_NI.size(1),
                        .outputs = weight_OI.size(0),
                        .input = kernel_data<const T>(input_NI),
                        .input_stride = input_NI.stride(0),
                        .weight = kernel_data<const W>(weight_OI),
                        .bias = kernel_data<const T>(bias_O),
                        .output = kernel_data<T>(output),
                        .output_stride = output.stride(0)});
  return output;
}

at::Tensor thin_linear(const at::Tensor& input_NI, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  if (is_mixed(input_NI, weight_OI)) return thin_linear_of<float, cpu::bfloat16>(input_NI, weight_OI, bias_O);
  if (input_NI.scalar_type() == at::kFloat) return thin_linear_of<float, float>(input_NI, weight_OI, bias_O);
  return thin_linear_of<cpu::bfloat16, cpu::bfloat16>(input_NI, weight_OI, bias_O);
}

void accumulate_bias_gradient(Parameter& bias, const at::Tensor& gradient_NO) {
  if (!has_cpu_kernel(gradient_NO)) {
    accumulate_gradient(bias, at::sum(gradient_NO, {0}, false, bias.gradient.scalar_type()));
    return;
  }
  if (!bias.gradient_written) bias.gradient.zero_();
  bias.gradient_written = true;
  with_kernel_type(gradient_NO, [&]<class T>(T) {
    cpu::add_column_sums(kernel_data<const T>(gradient_NO), gradient_NO.size(0), gradient_NO.size(1), gradient_NO.stride(0),
                         bias.gradient.data_ptr<float>());
  });
}

}  // namespace

at::Tensor linear_forward(const at::Tensor& input_NI, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  if (has_cpu_kernel(input_NI) && input_NI.size(0) <= kThinRows) return thin_linear(input_NI, weight_OI, bias_O);
  if (bias_O.defined() && !widens(input_NI) && !is_mixed(input_NI, weight_OI)) return at::addmm(bias_O, input_NI, weight_OI.t());
  at::Tensor output = matmul_nt(input_NI, weight_OI);
  return bias_O.defined() ? output.add_(bias_O) : output;
}

at::Tensor matmul_nt(const at::Tensor& a_NI, const at::Tensor& b_OI) {
  if (is_mixed(a_NI, b_OI)) {
    at::Tensor output = at::empty({a_NI.size(0), b_OI.size(0)}, a_NI.options());
    mixed_matmul_nt_out(output, a_NI, b_OI);
    return output;
  }
  return widens(a_NI) ? widened_matmul(a_NI, b_OI.t(), at::kBFloat16) : at::mm(a_NI, b_OI.t());
}

at::Tensor matmul_nn(const at::Tensor& a_NO, const at::Tensor& b_OI) {
  return widens(a_NO) ? widened_matmul(a_NO, b_OI, at::kBFloat16) : at::mm(a_NO, b_OI);
}

void matmul_nt_out(at::Tensor& output_NO, const at::Tensor& a_NI, const at::Tensor& b_OI) {
  if (is_mixed(a_NI, b_OI)) {
    mixed_matmul_nt_out(output_NO, a_NI, b_OI);
  } else if (widens(a_NI)) {
    output_NO.copy_(matmul_nt(a_NI, b_OI));
  } else {
    at::mm_out(output_NO, a_NI, b_OI.t());
  }
}

void matmul_nn_out(at::Tensor& output_NI, const at::Tensor& a_NO, const at::Tensor& b_OI) {
  if (widens(a_NO)) {
    output_NI.copy_(matmul_nn(a_NO, b_OI));
  } else {
    at::mm_out(output_NI, a_NO, b_OI);
  }
}

void accumulate_weight_gradient(Parameter& weight, const at::Tensor& a_NO, const at::Tensor& b_NI) {
  at::Tensor& gradient = weight.gradient;
  if (a_NO.scalar_type() == gradient.scalar_type()) {
    at::addmm_out(gradient, gradient, a_NO.t(), b_NI, weight.gradient_written ? 1.0 : 0.0, 1.0);
  } else if (widens(a_NO)) {
    // The whole sum in fp32, and no bf16 rounding before it is added.
    at::addmm_out(gradient, gradient, a_NO.to(at::kFloat).t(), b_NI.to(at::kFloat), weight.gradient_written ? 1.0 : 0.0, 1.0);
  } else {
    accumulate_gradient(weight, at::mm(a_NO.t(), b_NI));
  }
  weight.gradient_written = true;
}

void deliver_bias_gradient(Parameter& bias, const at::Tensor& gradient_NO) {
  deliver_weight_gradient(bias, [&bias, gradient_NO] { accumulate_bias_gradient(bias, gradient_NO); });
}

void deliver_linear_gradients(Parameter& weight, Parameter* bias, const at::Tensor& gradient_NO, const Saved& input_NI) {
  deliver_weight_gradient(weight, [&weight, gradient_NO, input_NI] { accumulate_weight_gradient(weight, gradient_NO, input_NI.get()); });
  if (bias != nullptr) deliver_bias_gradient(*bias, gradient_NO);
}

Variable linear(Tape& tape, const Variable& input_NI, Parameter& weight, Parameter* bias) {
  Variable output = tape.variable(linear_forward(input_NI.value, weight.weight, bias != nullptr ? bias->weight : at::Tensor()));
  const bool keeps_input = tape.recording() && weight.trainable;
  tape.record([&weight, bias, slot = input_NI.gradient, out = output.gradient, saved = keeps_input ? input_NI.save() : Saved()] {
    if (out->empty()) return;
    const at::Tensor gradient_NO = out->take();
    deliver_linear_gradients(weight, bias, gradient_NO, saved);
    if (slot != nullptr) slot->add_owned(matmul_nn(gradient_NO, weight.weight));
  });
  return output;
}

}  // namespace tessera::ops
