#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Which elements of a head form the pairs that are rotated: (i, i + n/2) as transformers' rotate_half, or (2i, 2i + 1).
enum class RopePairs { HalfSplit, Interleaved };

/// Rotates pair i of the first `rotary_dim` elements of every head by the angle whose cosine and sine stand at
/// [position, i]: (a, b) -> (a cos - b sin, b cos + a sin). Elements past rotary_dim are copied. `inverse` rotates back: the backward pass.
/// Head h of token t starts at t * token_stride + h * head_stride. input == output (same strides) works in place.
template <class T>
struct Rope {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  ///< even, at most head_dim
  RopePairs pairs = RopePairs::HalfSplit;
  bool inverse = false;
  const float* cosines = nullptr;  ///< [positions, rotary_dim / 2], any attention factor multiplied in
  const float* sines = nullptr;
  /// [tokens]; null: the position of token t is first_position + t % tokens_per_row.
  const std::int64_t* position_ids = nullptr;
  std::int64_t first_position = 0;
  std::int64_t tokens_per_row = 0;  ///< 0: all tokens are one row
  const T* input = nullptr;
  std::int64_t input_token_stride = 0;
  std::int64_t input_head_stride = 0;
  T* output = nullptr;
  std::int64_t output_token_stride = 0;
  std::int64_t output_head_stride = 0;
};
template <class T>
void rope(const Rope<T>& args, Isa isa = best_isa());

/// Copies `heads` × `head_dim` elements of each token between strided buffers (values of a fused qkv row; tokens as in Rope).
template <class T>
void copy_heads(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, const T* input, std::int64_t input_token_stride,
                std::int64_t input_head_stride, T* output, std::int64_t output_token_stride, std::int64_t output_head_stride);

}  // namespace tessera::ops::cpu
