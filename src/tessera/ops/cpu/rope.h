#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Rotates pair i of the first `rotary_dim` elements of every head, (i, i + rotary_dim / 2) as transformers' rotate_half, by the angle whose cosine
/// and sine stand at [token, i]: (a, b) -> (a cos - b sin, b cos + a sin). Elements past rotary_dim are copied. `inverse` rotates back: the backward
/// pass. Head h of token t starts at t * token_stride + h * head_stride. input == output (same strides) works in place.
template <class T>
struct Rope {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  ///< even, at most head_dim
  bool inverse = false;
  const float* cosines = nullptr;  ///< [tokens, rotary_dim / 2], any attention factor multiplied in
  const float* sines = nullptr;
  const T* input = nullptr;
  std::int64_t input_token_stride = 0;
  std::int64_t input_head_stride = 0;
  T* output = nullptr;
  std::int64_t output_token_stride = 0;
  std::int64_t output_head_stride = 0;
};
template <class T>
void rope(const Rope<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
