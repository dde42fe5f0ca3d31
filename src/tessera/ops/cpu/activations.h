#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// GeluTanh is torch's gelu(approximate="tanh"), config.json's gelu_pytorch_tanh and gelu_new; GeluErf is the exact one ("gelu").
enum class Activation { Silu, GeluTanh, GeluErf, Relu };

/// output = activation(gate) * up, or activation(gate) when `up` is null. Row r of gate starts at gate + r * gate_stride;
/// in a fused [rows, 2 width] projection, up = gate + width and both strides are 2 width. Outputs may coincide with inputs of the same stride.
template <class T>
struct ActivationForward {
  Activation activation = Activation::Silu;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const T* gate = nullptr;
  std::int64_t gate_stride = 0;
  const T* up = nullptr;
  std::int64_t up_stride = 0;
  T* output = nullptr;
  std::int64_t output_stride = 0;
};
template <class T>
void activation_forward(const ActivationForward<T>& args, Isa isa = best_isa());

/// gate_gradient = output_gradient * up * activation'(gate), up_gradient = output_gradient * activation(gate), recomputed from gate and up.
/// Gradients may overwrite the inputs (gate_gradient == gate, up_gradient == up or output_gradient).
/// `output`, when not null, receives the forward result too, so that down-projection weight gradients need not have kept it.
template <class T>
struct ActivationBackward {
  Activation activation = Activation::Silu;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const T* gate = nullptr;
  std::int64_t gate_stride = 0;
  const T* up = nullptr;
  std::int64_t up_stride = 0;
  const T* output_gradient = nullptr;
  std::int64_t output_gradient_stride = 0;
  T* gate_gradient = nullptr;
  std::int64_t gate_gradient_stride = 0;
  T* up_gradient = nullptr;  ///< unused when `up` is null
  std::int64_t up_gradient_stride = 0;
  T* output = nullptr;
  std::int64_t output_stride = 0;
};
template <class T>
void activation_backward(const ActivationBackward<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
