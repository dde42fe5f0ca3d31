#include "tessera/ops/cpu/activations.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/math.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

struct ValueAndSlope {
  Vec value;
  Vec slope;
};

template <Activation activation>
inline ValueAndSlope activate(Vec x) {
  if constexpr (activation == Activation::Silu) {
    const Vec s = sigmoid(x);
    return {x * s, s * (1.0f + x * (1.0f - s))};
  } else if constexpr (activation == Activation::GeluTanh) {
    constexpr float kSqrt2OverPi = 0.797884561f;
    const Vec square = x * x;
    const Vec t = tanh(kSqrt2OverPi * x * (1.0f + 0.044715f * square));
    const Vec half_gate = 0.5f * (1.0f + t);
    return {x * half_gate, half_gate + 0.5f * x * (1.0f - t * t) * kSqrt2OverPi * (1.0f + 0.134145f * square)};
  } else if constexpr (activation == Activation::GeluErf) {
    constexpr float kSqrtHalf = 0.707106781f;
    constexpr float kInverseSqrt2Pi = 0.398942280f;
    const Vec cumulative = 0.5f * (1.0f + erf(x * kSqrtHalf));
    return {x * cumulative, cumulative + x * kInverseSqrt2Pi * exp_nonpositive(-0.5f * x * x)};
  } else {
    // As torch: NaN stays NaN.
    return {select(x <= 0.0f, Vec{}, x), select(x <= 0.0f, Vec{}, broadcast(1.0f))};
  }
}

template <Activation activation, class T>
void forward_rows(const ActivationForward<T>& args) {
  parallel_for(0, args.rows, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* gate = args.gate + row * args.gate_stride;
      const T* up = args.up == nullptr ? nullptr : args.up + row * args.up_stride;
      T* output = args.output + row * args.output_stride;
      for_vectors(args.width, [&](std::int64_t c, auto lanes) {
        const Vec value = activate<activation>(load(gate + c, lanes)).value;
        store(output + c, up == nullptr ? value : value * load(up + c, lanes), lanes);
      });
    }
  });
}

/// All inputs of a vector are read before anything is stored: gradients may overwrite what they are computed from.
template <Activation activation, class T>
void backward_row(const ActivationBackward<T>& args, std::int64_t row) {
  const T* gate = args.gate + row * args.gate_stride;
  const T* up = args.up == nullptr ? nullptr : args.up + row * args.up_stride;
  const T* dy = args.output_gradient + row * args.output_gradient_stride;
  T* gate_gradient = args.gate_gradient + row * args.gate_gradient_stride;
  T* up_gradient = args.up == nullptr ? nullptr : args.up_gradient + row * args.up_gradient_stride;
  T* output = args.output == nullptr ? nullptr : args.output + row * args.output_stride;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    const ValueAndSlope gated = activate<activation>(load(gate + c, lanes));
    const Vec gradient = load(dy + c, lanes);
    const Vec factor = up == nullptr ? broadcast(1.0f) : load(up + c, lanes);
    store(gate_gradient + c, gradient * factor * gated.slope, lanes);
    if (up != nullptr) store(up_gradient + c, gradient * gated.value, lanes);
    if (output != nullptr) store(output + c, gated.value * factor, lanes);
  });
}

template <Activation activation, class T>
void backward_rows(const ActivationBackward<T>& args) {
  parallel_for(0, args.rows, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) backward_row<activation>(args, row);
  });
}

template <class T>
void activation_forward_kernel(const ActivationForward<T>& args) {
  switch (args.activation) {
    case Activation::Silu:
      return forward_rows<Activation::Silu>(args);
    case Activation::GeluTanh:
      return forward_rows<Activation::GeluTanh>(args);
    case Activation::GeluErf:
      return forward_rows<Activation::GeluErf>(args);
    case Activation::Relu:
      return forward_rows<Activation::Relu>(args);
  }
}

template <class T>
void activation_backward_kernel(const ActivationBackward<T>& args) {
  switch (args.activation) {
    case Activation::Silu:
      return backward_rows<Activation::Silu>(args);
    case Activation::GeluTanh:
      return backward_rows<Activation::GeluTanh>(args);
    case Activation::GeluErf:
      return backward_rows<Activation::GeluErf>(args);
    case Activation::Relu:
      return backward_rows<Activation::Relu>(args);
  }
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(activation_forward_kernel, ActivationForward<float>)
TESSERA_KERNEL(activation_forward_kernel, ActivationForward<bfloat16>)
TESSERA_KERNEL(activation_backward_kernel, ActivationBackward<float>)
TESSERA_KERNEL(activation_backward_kernel, ActivationBackward<bfloat16>)

}  // namespace tessera::ops::cpu
