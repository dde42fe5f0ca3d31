#include "tessera/ops/norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "tessera/ops/cpu/norms.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

/// The vectors of one norm call inside a matrix [N, row width]: `groups` of `width` elements each, `start` elements into the row.
struct Vectors {
  std::int64_t start = 0;
  std::int64_t groups = 1;
  std::int64_t width = 0;
};

at::Tensor region(const at::Tensor& matrix, const Vectors& vectors) {
  return matrix.narrow(1, vectors.start, vectors.groups * vectors.width).unflatten(1, {vectors.groups, vectors.width});
}

float* gradient_accumulator(Parameter& parameter) {
  if (!parameter.trainable) return nullptr;
  if (!parameter.gradient_written) parameter.gradient.zero_();
  parameter.gradient_written = true;
  return parameter.gradient.data_ptr<float>();
}

/// Normalises `vectors` of input into the same place of output; returns rstd [N, groups] in fp32 (fp64 for fp64).
at::Tensor rms_forward(const at::Tensor& input, const at::Tensor& weight, const Vectors& vectors, const RmsNormOptions& options, at::Tensor& output) {
  if (!has_cpu_kernel(input)) {
    const at::Tensor x = region(input, vectors).to(compute_type(input));
    const at::Tensor rstd = at::rsqrt(at::mean(x * x, {-1}, true) + options.epsilon);
    region(output, vectors).copy_(x * rstd * (weight.to(x.scalar_type()) + options.weight_offset));
    return rstd.squeeze(-1);
  }
  at::Tensor rstd = at::empty({input.size(0), vectors.groups}, input.options().dtype(at::kFloat));
  with_kernel_type(input, [&]<class T>(T) {
    cpu::rms_norm_forward<T>({.rows = input.size(0),
                              .groups = vectors.groups,
                              .width = vectors.width,
                              .input = kernel_data<const T>(input) + vectors.start,
                              .input_layout = {input.stride(0), vectors.width},
                              .weight = kernel_data<const T>(weight),
                              .weight_offset = static_cast<float>(options.weight_offset),
                              .epsilon = static_cast<float>(options.epsilon),
                              .output = kernel_data<T>(output) + vectors.start,
                              .output_layout = {output.stride(0), vectors.width},
                              .rstd = rstd.data_ptr<float>()});
  });
  return rstd;
}

/// input_gradient = residual_gradient (when defined; may be the same tensor) + the gradient through the norm.
void rms_backward(const at::Tensor& input, Parameter& weight, const Vectors& vectors, const RmsNormOptions& options, const at::Tensor& rstd,
                  const at::Tensor& output_gradient, const at::Tensor& residual_gradient, at::Tensor& input_gradient) {
  if (!has_cpu_kernel(input)) {
    const auto type = compute_type(input);
    const at::Tensor normal = region(input, vectors).to(type) * rstd.unsqueeze(-1);
    const at::Tensor dy = region(output_gradient, vectors).to(type);
    const at::Tensor scaled = dy * (weight.weight.to(type) + options.weight_offset);
    const at::Tensor dx = (scaled - normal * at::mean(scaled * normal, {-1}, true)) * rstd.unsqueeze(-1);
    // Before the input gradient is written: it may lie over the output gradient.
    if (weight.trainable) accumulate_gradient(weight, at::sum(dy * normal, at::IntArrayRef({0, 1})));
    region(input_gradient, vectors).copy_(residual_gradient.defined() ? dx + region(residual_gradient, vectors) : dx);
    return;
  }
  float* weight_gradient = gradient_accumulator(weight);
  with_kernel_type(input, [&]<class T>(T) {
    cpu::rms_norm_backward<T>({.rows = input.size(0),
                               .groups = vectors.groups,
                               .width = vectors.width,
                               .input = kernel_data<const T>(input) + vectors.start,
                               .input_layout = {input.stride(0), vectors.width},
                               .weight = kernel_data<const T>(weight.weight),
                               .weight_offset = static_cast<float>(options.weight_offset),
                               .rstd = rstd.data_ptr<float>(),
                               .output_gradient = kernel_data<const T>(output_gradient) + vectors.start,
                               .output_gradient_layout = {output_gradient.stride(0), vectors.width},
                               .residual_gradient = residual_gradient.defined() ? kernel_data<const T>(residual_gradient) + vectors.start : nullptr,
                               .input_gradient = kernel_data<T>(input_gradient) + vectors.start,
                               .input_gradient_layout = {input_gradient.stride(0), vectors.width},
                               .weight_gradient = weight_gradient});
  });
}

struct LayerNormState {
  at::Tensor mean, rstd;  ///< [N]
};

LayerNormState layer_forward(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, double epsilon, at::Tensor& output) {
  if (!has_cpu_kernel(input)) {
    const at::Tensor x = input.to(compute_type(input));
    const at::Tensor mean = at::mean(x, {-1}, true);
    const at::Tensor centred = x - mean;
    const at::Tensor rstd = at::rsqrt(at::mean(centred * centred, {-1}, true) + epsilon);
    at::Tensor y = centred * rstd * weight.to(x.scalar_type());
    output.copy_(bias.defined() ? y + bias.to(x.scalar_type()) : y);
    return {mean.squeeze(-1), rstd.squeeze(-1)};
  }
  LayerNormState state{at::empty({input.size(0)}, input.options().dtype(at::kFloat)), at::empty({input.size(0)}, input.options().dtype(at::kFloat))};
  with_kernel_type(input, [&]<class T>(T) {
    cpu::layer_norm_forward<T>({.rows = input.size(0),
                                .width = input.size(1),
                                .input = kernel_data<const T>(input),
                                .input_stride = input.stride(0),
                                .weight = kernel_data<const T>(weight),
                                .bias = kernel_data<const T>(bias),
                                .epsilon = static_cast<float>(epsilon),
                                .output = kernel_data<T>(output),
                                .output_stride = output.stride(0),
                                .mean = state.mean.data_ptr<float>(),
                                .rstd = state.rstd.data_ptr<float>()});
  });
  return state;
}

void layer_backward(const at::Tensor& input, Parameter& weight, Parameter* bias, const LayerNormState& state, const at::Tensor& output_gradient,
                    const at::Tensor& residual_gradient, at::Tensor& input_gradient) {
  if (!has_cpu_kernel(input)) {
    const auto type = compute_type(input);
    const at::Tensor rstd = state.rstd.unsqueeze(-1);
    const at::Tensor normal = (input.to(type) - state.mean.unsqueeze(-1)) * rstd;
    const at::Tensor dy = output_gradient.to(type);
    const at::Tensor scaled = dy * weight.weight.to(type);
    const at::Tensor dx = (scaled - at::mean(scaled, {-1}, true) - normal * at::mean(scaled * normal, {-1}, true)) * rstd;
    input_gradient.copy_(residual_gradient.defined() ? dx + residual_gradient : dx);
    if (weight.trainable) accumulate_gradient(weight, at::sum(dy * normal, {0}));
    if (bias != nullptr && bias->trainable) accumulate_gradient(*bias, at::sum(dy, {0}));
    return;
  }
  float* weight_gradient = gradient_accumulator(weight);
  float* bias_gradient = bias != nullptr ? gradient_accumulator(*bias) : nullptr;
  with_kernel_type(input, [&]<class T>(T) {
    cpu::layer_norm_backward<T>({.rows = input.size(0),
                                 .width = input.size(1),
                                 .input = kernel_data<const T>(input),
                                 .input_stride = input.stride(0),
                                 .weight = kernel_data<const T>(weight.weight),
                                 .mean = state.mean.data_ptr<float>(),
                                 .rstd = state.rstd.data_ptr<float>(),
                                 .output_gradient = kernel_data<const T>(output_gradient),
                                 .output_gradient_stride = output_gradient.stride(0),
                                 .residual_gradient = kernel_data<const T>(residual_gradient),
                                 .input_gradient = kernel_data<T>(input_gradient),
                                 .input_gradient_stride = input_gradient.stride(0),
                                 .weight_gradient = weight_gradient,
                                 .bias_gradient = bias_gradient});
  });
}

/// The gradient that already reached `slot` past the norm, and the buffer for its sum with the norm's own: the same one when nobody else reads it.
struct InputGradient {
  at::Tensor residual, sum;
};

InputGradient input_gradient(GradientSlot* slot, const at::Tensor& like) {
  const bool reuse = slot != nullptr && slot->owned();
  const at::Tensor residual = slot != nullptr ? slot->take() : at::Tensor();
  return {residual, reuse ? residual : at::empty_like(like)};
}

}  // namespace

Variable rms_norm(Tape& tape, const Variable& input_ND, Parameter& weight, const RmsNormOptions& options) {
  const at::Tensor& input = input_ND.value;
  const Vectors vectors{0, 1, input.size(1)};
  at::Tensor result = at::empty_like(input);
  const at::Tensor rstd = rms_forward(input, weight.weight, vectors, options, result);
  Variable output = tape.variable(result);
  if (!tape.recording()) return output;
  output.rebuild = [input, &weight, vectors, options] {
    at::Tensor again = at::empty_like(input);
    rms_forward(input, weight.weight, vectors, options, again);
    return again;
  };
  tape.record([input, &weight, vectors, options, rstd, slot = input_ND.gradient, out = output.gradient] {
    if (out->empty()) return;
    InputGradient gradient = input_gradient(slot.get(), input);
    rms_backward(input, weight, vectors, options, rstd, out->take(), gradient.residual, gradient.sum);
    if (slot != nullptr) slot->add_owned(gradient.sum);
  });
  return output;
}

Variable layer_norm(Tape& tape, const Variable& input_ND, Parameter& weight, Parameter* bias, double epsilon) {
  const at::Tensor& input = input_ND.value;
  const auto apply = [input, &weight, bias, epsilon](at::Tensor& result) {
    return layer_forward(input, weight.weight, bias != nullptr ? bias->weight : at::Tensor(), epsilon, result);
  };
  at::Tensor result = at::empty_like(input);
  const LayerNormState state = apply(result);
  Variable output = tape.variable(result);
  if (!tape.recording()) return output;
  output.rebuild = [input, apply] {
    at::Tensor again = at::empty_like(input);
    apply(again);
    return again;
  };
  tape.record([input, &weight, bias, state, slot = input_ND.gradient, out = output.gradient] {
    if (out->empty()) return;
    InputGradient gradient = input_gradient(slot.get(), input);
    layer_backward(input, weight, bias, state, out->take(), gradient.residual, gradient.sum);
    if (slot != nullptr) slot->add_owned(gradient.sum);
  });
  return output;
}

Variable query_key_norm(Tape& tape, const Variable& query_key_value, Parameter& query_weight, Parameter& key_weight,
                        const QueryKeyNormOptions& options) {
  const std::int64_t queries = options.num_heads * options.head_dim;
  const std::int64_t keys = options.num_key_value_heads * options.head_dim;
  const auto vectors = [&](std::int64_t start, std::int64_t heads) {
    return options.per_head ? Vectors{start, heads, options.head_dim} : Vectors{start, 1, heads * options.head_dim};
  };
  const Vectors query = vectors(0, options.num_heads), key = vectors(queries, options.num_key_value_heads);
  const at::Tensor& input = query_key_value.value;
  at::Tensor result = at::empty_like(input);
  result.narrow(1, queries + keys, keys).copy_(input.narrow(1, queries + keys, keys));
  const at::Tensor query_rstd = rms_forward(input, query_weight.weight, query, options.norm, result);
  const at::Tensor key_rstd = rms_forward(input, key_weight.weight, key, options.norm, result);
  Variable output = tape.variable(result);
  tape.record([input, &query_weight, &key_weight, query, key, query_rstd, key_rstd, norm = options.norm, slot = query_key_value.gradient,
               out = output.gradient] {
    if (out->empty()) return;
    // In place on the output's gradient: the values' part passes through unchanged.
    at::Tensor gradient = out->take_owned();
    rms_backward(input, query_weight, query, norm, query_rstd, gradient, at::Tensor(), gradient);
    rms_backward(input, key_weight, key, norm, key_rstd, gradient, at::Tensor(), gradient);
    if (slot != nullptr) slot->add_owned(gradient);
  });
  return output;
}

}  // namespace tessera::ops
