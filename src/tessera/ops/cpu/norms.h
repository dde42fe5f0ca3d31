#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Where the vectors to normalise lie: vector (row, group) starts at row * row_stride + group * group_stride (in elements).
/// An ordinary norm has one group; a per-head norm (qwen3) has `heads` groups inside a row of the fused projection.
struct VectorLayout {
  std::int64_t row_stride = 0;
  std::int64_t group_stride = 0;
};

/// y = x * rstd * (weight + weight_offset), rstd = 1 / sqrt(mean(x²) + epsilon); vectors of `width` elements.
/// All arithmetic in fp32, rounded to T once. weight may be null (ones).
template <class T>
struct RmsNormForward {
  std::int64_t rows = 0;
  std::int64_t groups = 1;
  std::int64_t width = 0;
  const T* input = nullptr;
  VectorLayout input_layout = {};
  const T* weight = nullptr;   ///< [width]
  float weight_offset = 0.0f;  ///< 1 for Gemma
  float epsilon = 0.0f;
  T* output = nullptr;  ///< may be `input`
  VectorLayout output_layout = {};
  float* rstd = nullptr;  ///< [rows, groups], may be null when no backward follows
};
template <class T>
void rms_norm_forward(const RmsNormForward<T>& args, Isa isa = best_isa());

/// Gradients of RmsNormForward.
template <class T>
struct RmsNormBackward {
  std::int64_t rows = 0;
  std::int64_t groups = 1;
  std::int64_t width = 0;
  const T* input = nullptr;
  VectorLayout input_layout = {};
  const T* weight = nullptr;
  float weight_offset = 0.0f;
  const float* rstd = nullptr;  ///< [rows, groups]
  const T* output_gradient = nullptr;
  VectorLayout output_gradient_layout = {};
  /// Added to the input gradient when not null (the gradient that reaches x past the norm); layout of input_gradient, may be the same pointer.
  const T* residual_gradient = nullptr;
  T* input_gradient = nullptr;  ///< may be output_gradient; null: not wanted
  VectorLayout input_gradient_layout = {};
  float* weight_gradient = nullptr;  ///< [width], added to; null: not wanted. Bitwise independent of the number of threads.
};
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args, Isa isa = best_isa());

/// y = (x - mean) * rstd * weight + bias. Rows of `width` elements, strides in elements. weight and bias may be null.
template <class T>
struct LayerNormForward {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const T* input = nullptr;
  std::int64_t input_stride = 0;
  const T* weight = nullptr;
  const T* bias = nullptr;
  float epsilon = 0.0f;
  T* output = nullptr;
  std::int64_t output_stride = 0;
  float* mean = nullptr;  ///< [rows], may be null together with rstd
  float* rstd = nullptr;  ///< [rows]
};
template <class T>
void layer_norm_forward(const LayerNormForward<T>& args, Isa isa = best_isa());

template <class T>
struct LayerNormBackward {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const T* input = nullptr;
  std::int64_t input_stride = 0;
  const T* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const T* output_gradient = nullptr;
  std::int64_t output_gradient_stride = 0;
  const T* residual_gradient = nullptr;  ///< as in RmsNormBackward
  T* input_gradient = nullptr;
  std::int64_t input_gradient_stride = 0;
  float* weight_gradient = nullptr;  ///< [width], added to; null: not wanted
  float* bias_gradient = nullptr;    ///< [width], added to; null: not wanted
};
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
