#include "tessera/ops/cpu/norms.h"

#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

template <class T, class Lanes>
inline Vec weight_at(const T* weight, float offset, std::int64_t c, Lanes lanes) {
  return weight == nullptr ? broadcast(1.0f) : load(weight + c, lanes) + offset;
}

/// Calls term(c, lanes) over the row and adds its vectors up in four independent chains.
template <class Term>
inline float row_sum(std::int64_t width, const Term& term) {
  Vec sums[4] = {};
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) sums[i] += term(c + i * kLanes, Full{});
  }
  for (; c + kLanes <= width; c += kLanes) sums[0] += term(c, Full{});
  if (c < width) sums[1] += keep(term(c, Partial{width - c}), Partial{width - c});
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class T>
inline float sum_of_row_squares(const T* x, std::int64_t width) {
  return row_sum(width, [&](std::int64_t c, auto lanes) {
    const Vec value = load(x + c, lanes);
    return value * value;
  });
}

template <class T>
void rms_norm_row(const RmsNormForward<T>& args, std::int64_t row, std::int64_t group) {
  const T* x = args.input + row * args.input_layout.row_stride + group * args.input_layout.group_stride;
  const float rstd = 1.0f / std::sqrt(sum_of_row_squares(x, args.width) / static_cast<float>(args.width) + args.epsilon);
  if (args.rstd != nullptr) args.rstd[row * args.groups + group] = rstd;
  T* y = args.output + row * args.output_layout.row_stride + group * args.output_layout.group_stride;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    store(y + c, load(x + c, lanes) * rstd * weight_at(args.weight, args.weight_offset, c, lanes), lanes);
  });
}

template <class T>
void rms_norm_forward_kernel(const RmsNormForward<T>& args) {
  parallel_for(0, args.rows, grain_rows(args.groups * args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t group = 0; group < args.groups; ++group) rms_norm_row(args, row, group);
    }
  });
}

/// dx = rstd (g - x rstd² mean(g x)), g = dy * weight. `weight_totals` gets dy * x * rstd when not null.
template <class T>
void rms_norm_backward_row(const RmsNormBackward<T>& args, std::int64_t row, std::int64_t group, float* weight_totals) {
  const T* x = args.input + row * args.input_layout.row_stride + group * args.input_layout.group_stride;
  const T* dy = args.output_gradient + row * args.output_gradient_layout.row_stride + group * args.output_gradient_layout.group_stride;
  const float rstd = args.rstd[row * args.groups + group];
  const auto scaled_gradient = [&](std::int64_t c, auto lanes) { return load(dy + c, lanes) * weight_at(args.weight, args.weight_offset, c, lanes); };
  if (weight_totals != nullptr) {
    for_vectors(args.width, [&](std::int64_t c, auto lanes) {
      store(weight_totals + c, load(weight_totals + c, lanes) + load(dy + c, lanes) * (load(x + c, lanes) * rstd), lanes);
    });
  }
  if (args.input_gradient == nullptr) return;
  const float dot = row_sum(args.width, [&](std::int64_t c, auto lanes) { return scaled_gradient(c, lanes) * load(x + c, lanes); });
  const float along_x = -dot * rstd * rstd * rstd / static_cast<float>(args.width);
  const std::int64_t offset = row * args.input_gradient_layout.row_stride + group * args.input_gradient_layout.group_stride;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    Vec dx = scaled_gradient(c, lanes) * rstd + load(x + c, lanes) * along_x;
    if (args.residual_gradient != nullptr) dx += load(args.residual_gradient + offset + c, lanes);
    store(args.input_gradient + offset + c, dx, lanes);
  });
}

template <class T>
void rms_norm_backward_kernel(const RmsNormBackward<T>& args) {
  const auto rows = [&](float* weight_totals, std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t group = 0; group < args.groups; ++group) rms_norm_backward_row(args, row, group, weight_totals);
    }
  };
  if (args.weight_gradient != nullptr) {
    sum_over_row_blocks(args.rows, args.width, args.weight_gradient, rows);
    return;
  }
  parallel_for(0, args.rows, grain_rows(args.groups * args.width), [&](std::int64_t first, std::int64_t last) { rows(nullptr, first, last); });
}

struct Moments {
  float mean;
  float rstd;
};

/// Two passes: the variance is of the differences from the mean.
template <class T>
Moments moments_of_row(const T* x, std::int64_t width, float epsilon) {
  const float mean = row_sum(width, [&](std::int64_t c, auto lanes) { return load(x + c, lanes); }) / static_cast<float>(width);
  const float squares = row_sum(width, [&](std::int64_t c, auto lanes) {
    const Vec difference = load(x + c, lanes) - mean;
    return difference * difference;
  });
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(width) + epsilon)};
}

template <class T>
void layer_norm_row(const LayerNormForward<T>& args, std::int64_t row) {
  const T* x = args.input + row * args.input_stride;
  const Moments moments = moments_of_row(x, args.width, args.epsilon);
  if (args.mean != nullptr) args.mean[row] = moments.mean;
  if (args.rstd != nullptr) args.rstd[row] = moments.rstd;
  T* y = args.output + row * args.output_stride;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    Vec value = (load(x + c, lanes) - moments.mean) * moments.rstd * weight_at(args.weight, 0.0f, c, lanes);
    if (args.bias != nullptr) value += load(args.bias + c, lanes);
    store(y + c, value, lanes);
  });
}

template <class T>
void layer_norm_forward_kernel(const LayerNormForward<T>& args) {
  parallel_for(0, args.rows, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) layer_norm_row(args, row);
  });
}

/// dx = rstd (g - mean(g) - n mean(g n)), g = dy * weight, n = (x - mean) rstd. totals = [weight totals | bias totals], each may be absent (null).
template <class T>
void layer_norm_backward_row(const LayerNormBackward<T>& args, std::int64_t row, float* weight_totals, float* bias_totals) {
  const T* x = args.input + row * args.input_stride;
  const T* dy = args.output_gradient + row * args.output_gradient_stride;
  const float mean = args.mean[row];
  const float rstd = args.rstd[row];
  const auto normalised = [&](std::int64_t c, auto lanes) { return (load(x + c, lanes) - mean) * rstd; };
  const auto scaled_gradient = [&](std::int64_t c, auto lanes) { return load(dy + c, lanes) * weight_at(args.weight, 0.0f, c, lanes); };
  if (weight_totals != nullptr) {
    for_vectors(args.width, [&](std::int64_t c, auto lanes) {
      const Vec gradient = load(dy + c, lanes);
      store(weight_totals + c, load(weight_totals + c, lanes) + gradient * normalised(c, lanes), lanes);
      store(bias_totals + c, load(bias_totals + c, lanes) + gradient, lanes);
    });
  }
  if (args.input_gradient == nullptr) return;
  const float width = static_cast<float>(args.width);
  const float mean_gradient = row_sum(args.width, scaled_gradient) / width;
  const float mean_product =
      row_sum(args.width, [&](std::int64_t c, auto lanes) { return scaled_gradient(c, lanes) * normalised(c, lanes); }) / width;
  T* dx = args.input_gradient + row * args.input_gradient_stride;
  const T* residual = args.residual_gradient == nullptr ? nullptr : args.residual_gradient + row * args.input_gradient_stride;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    Vec value = (scaled_gradient(c, lanes) - mean_gradient - normalised(c, lanes) * mean_product) * rstd;
    if (residual != nullptr) value += load(residual + c, lanes);
    store(dx + c, value, lanes);
  });
}

template <class T>
void layer_norm_backward_kernel(const LayerNormBackward<T>& args) {
  const std::int64_t width = args.width;
  const auto rows = [&](float* totals, std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) layer_norm_backward_row(args, row, totals, totals == nullptr ? nullptr : totals + width);
  };
  if (args.weight_gradient == nullptr && args.bias_gradient == nullptr) {
    parallel_for(0, args.rows, grain_rows(width), [&](std::int64_t first, std::int64_t last) { rows(nullptr, first, last); });
    return;
  }
  const Scratch totals(2 * width);
  std::memset(totals.data(), 0, static_cast<std::size_t>(2 * width) * sizeof(float));
  sum_over_row_blocks(args.rows, 2 * width, totals.data(), rows);
  const auto add = [&](float* target, const float* source) {
    if (target == nullptr) return;
    for (std::int64_t c = 0; c < width; ++c) target[c] += source[c];
  };
  add(args.weight_gradient, totals.data());
  add(args.bias_gradient, totals.data() + width);
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(rms_norm_forward_kernel, RmsNormForward<float>)
TESSERA_KERNEL(rms_norm_forward_kernel, RmsNormForward<bfloat16>)
TESSERA_KERNEL(rms_norm_backward_kernel, RmsNormBackward<float>)
TESSERA_KERNEL(rms_norm_backward_kernel, RmsNormBackward<bfloat16>)
TESSERA_KERNEL(layer_norm_forward_kernel, LayerNormForward<float>)
TESSERA_KERNEL(layer_norm_forward_kernel, LayerNormForward<bfloat16>)
TESSERA_KERNEL(layer_norm_backward_kernel, LayerNormBackward<float>)
TESSERA_KERNEL(layer_norm_backward_kernel, LayerNormBackward<bfloat16>)

}  // namespace tessera::ops::cpu
