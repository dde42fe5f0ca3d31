#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// Cosines and sines of every token's rotary angles, any attention factor multiplied in. fp32 (fp64 for reference runs), contiguous.
struct RopeTable {
  at::Tensor cosines_NR;  ///< [N, rotary_dim / 2]
  at::Tensor sines_NR;
};

/// Rotates the first rotary_dim elements of the query and key heads of a fused [N, (H + 2K)·C] projection, in place: pair (i, i + rotary_dim / 2)
/// turns by the token's angle i (Su et al. 2021, in the half-split order of Hugging Face checkpoints). Nobody else may have saved the input.
Variable rotate_in_place(Tape& tape, const Variable& query_key_value, const RopeTable& table, std::int64_t num_rotated_heads, std::int64_t head_dim);

struct HeadViews {
  Variable query_BTHC, key_BTKC, value_BTKC;
};

/// Views of a fused [B·T, (H + 2K)·C] projection as heads; no copy. Backward joins the three gradients, without a copy when they already lie
/// side by side in one buffer.
HeadViews split_heads(Tape& tape, const Variable& query_key_value, std::int64_t batch, std::int64_t num_heads, std::int64_t num_key_value_heads,
                      std::int64_t head_dim);

/// Three fresh gradients [B, T, H, C], [B, S, K, C], [B, S, K, C]; side by side in one buffer when S = T and all heads are equally wide.
struct HeadGradients {
  at::Tensor query, key, value;
};
HeadGradients adjacent_head_gradients(const at::Tensor& query_BTHC, const at::Tensor& key_BTKC, const at::Tensor& value_BTKC);

}  // namespace tessera::ops
