#include "tessera/ops/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>

#include "tessera/core/error.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

at::Tensor composite(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return at::silu(x);
    case Activation::GeluTanh:
      return at::gelu(x, "tanh");
    case Activation::GeluErf:
      return at::gelu(x, "none");
    case Activation::Relu:
      return at::relu(x);
  }
  TESSERA_ASSERT(false, "no such activation");
}

at::Tensor composite_backward(const at::Tensor& gradient, const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return at::silu_backward(gradient, x);
    case Activation::GeluTanh:
      return at::gelu_backward(gradient, x, "tanh");
    case Activation::GeluErf:
      return at::gelu_backward(gradient, x, "none");
    case Activation::Relu:
      return at::threshold_backward(gradient, x, 0);
  }
  TESSERA_ASSERT(false, "no such activation");
}

/// `input` is [N, 2F] when gated, [N, F] otherwise.
at::Tensor forward(const at::Tensor& input, Activation activation, bool gated) {
  const std::int64_t width = gated ? input.size(1) / 2 : input.size(1);
  if (!has_cpu_kernel(input)) {
    const auto type = compute_type(input);
    const at::Tensor gate = composite(input.narrow(1, 0, width).to(type), activation);
    return (gated ? gate * input.narrow(1, width, width).to(type) : gate).to(input.scalar_type());
  }
  at::Tensor output = at::empty({input.size(0), width}, input.options());
  with_kernel_type(input, [&]<class T>(T) {
    const T* const gate = kernel_data<const T>(input);
    cpu::activation_forward<T>({.activation = activation,
                                .rows = input.size(0),
                                .width = width,
                                .gate = gate,
                                .gate_stride = input.stride(0),
                                .up = gated ? gate + width : nullptr,
                                .up_stride = input.stride(0),
                                .output = kernel_data<T>(output),
                                .output_stride = width});
  });
  return output;
}

at::Tensor backward(const at::Tensor& input, const at::Tensor& output_gradient, Activation activation, bool gated) {
  const std::int64_t width = output_gradient.size(1);
  at::Tensor gradient = at::empty_like(input);
  if (!has_cpu_kernel(input)) {
    const auto type = compute_type(input);
    const at::Tensor gate = input.narrow(1, 0, width).to(type), dy = output_gradient.to(type);
    const at::Tensor up = gated ? input.narrow(1, width, width).to(type) : at::Tensor();
    gradient.narrow(1, 0, width).copy_(composite_backward(gated ? dy * up : dy, gate, activation));
    if (gated) gradient.narrow(1, width, width).copy_(dy * composite(gate, activation));
    return gradient;
  }
  with_kernel_type(input, [&]<class T>(T) {
    const T* const gate = kernel_data<const T>(input);
    T* const gate_gradient = kernel_data<T>(gradient);
    cpu::activation_backward<T>({.activation = activation,
                                 .rows = input.size(0),
                                 .width = width,
                                 .gate = gate,
                                 .gate_stride = input.stride(0),
                                 .up = gated ? gate + width : nullptr,
                                 .up_stride = input.stride(0),
                                 .output_gradient = kernel_data<const T>(output_gradient),
                                 .output_gradient_stride = output_gradient.stride(0),
                                 .gate_gradient = gate_gradient,
                                 .gate_gradient_stride = gradient.stride(0),
                                 .up_gradient = gated ? gate_gradient + width : nullptr,
                                 .up_gradient_stride = gradient.stride(0)});
  });
  return gradient;
}

Variable apply(Tape& tape, const Variable& input, Activation activation, bool gated) {
  Variable output = tape.variable(forward(input.value, activation, gated));
  if (!tape.recording()) return output;
  output.rebuild = [value = input.value, activation, gated] { return forward(value, activation, gated); };
  tape.record([value = input.value, activation, gated, slot = input.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    slot->add_owned(backward(value, out->take(), activation, gated));
  });
  return output;
}

/// A limited activation's inputs, in fp32 (fp64): what it saves is gate_up alone.
struct LimitedParts {
  at::Tensor gate, up, sigmoid;

  LimitedParts(const at::Tensor& gate_up, double alpha, double limit) {
    const at::Tensor pairs = gate_up.to(compute_type(gate_up)).unflatten(1, {-1, 2});
    gate = pairs.select(2, 0).clamp_max(limit);
    up = pairs.select(2, 1).clamp(-limit, limit);
    sigmoid = at::sigmoid(gate * alpha);
  }
};

at::Tensor limited_forward(const at::Tensor& gate_up, double alpha, double limit) {
  const LimitedParts parts(gate_up, alpha, limit);
  return (parts.gate * parts.sigmoid * (parts.up + 1.0)).to(gate_up.scalar_type());
}

at::Tensor limited_backward(const at::Tensor& gate_up, const at::Tensor& output_gradient, double alpha, double limit) {
  const LimitedParts parts(gate_up, alpha, limit);
  const at::Tensor dy = output_gradient.to(parts.gate.scalar_type());
  at::Tensor gradient = at::empty_like(gate_up);
  const at::Tensor pairs = gradient.unflatten(1, {-1, 2}), inputs = gate_up.unflatten(1, {-1, 2});
  const at::Tensor slope = parts.sigmoid * (1.0 + alpha * parts.gate * (1.0 - parts.sigmoid));
  pairs.select(2, 0).copy_((dy * (parts.up + 1.0) * slope).masked_fill(inputs.select(2, 0).gt(limit), 0.0));
  pairs.select(2, 1).copy_((dy * parts.gate * parts.sigmoid).masked_fill(inputs.select(2, 1).abs().gt(limit), 0.0));
  return gradient;
}

}  // namespace

Variable limited_gated_activation(Tape& tape, const Variable& gate_up, double alpha, double limit) {
  Variable output = tape.variable(limited_forward(gate_up.value, alpha, limit));
  if (!tape.recording()) return output;
  output.rebuild = [value = gate_up.value, alpha, limit] { return limited_forward(value, alpha, limit); };
  tape.record([value = gate_up.value, alpha, limit, slot = gate_up.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    slot->add_owned(limited_backward(value, out->take(), alpha, limit));
  });
  return output;
}

Variable sigmoid_gate(Tape& tape, const Variable& input_ND, const Variable& logits_N1) {
  const at::ScalarType type = compute_type(input_ND.value);
  const at::Tensor gate = at::sigmoid(logits_N1.value.to(type));
  Variable output = tape.variable((input_ND.value * gate).to(input_ND.value.scalar_type()));
  tape.record([gate, type, saved = input_ND.save(), logits_type = logits_N1.value.scalar_type(), slot = input_ND.gradient,
               logits_slot = logits_N1.gradient, out = output.gradient] {
    if (out->empty()) return;
    const at::Tensor gradient = out->take();
    const at::Tensor wide = gradient.to(type);
    if (logits_slot != nullptr) logits_slot->add_owned(((wide * saved.get()).sum({1}, true) * gate * (1.0 - gate)).to(logits_type));
    if (slot != nullptr) slot->add_owned((wide * gate).to(gradient.scalar_type()));
  });
  return output;
}

Variable gated_activation(Tape& tape, const Variable& gate_up, Activation activation) { return apply(tape, gate_up, activation, true); }
Variable plain_activation(Tape& tape, const Variable& input_NF, Activation activation) { return apply(tape, input_NF, activation, false); }

}  // namespace tessera::ops
