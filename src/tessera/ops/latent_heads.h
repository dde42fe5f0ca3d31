#pragma once

#include <cstdint>

#include "tessera/ops/heads.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// Sizes of multi-head latent attention.
struct LatentHeadsOptions {
  std::int64_t batch = 1;
  std::int64_t num_heads = 1;
  std::int64_t nope_head_dim = 0;
  std::int64_t rope_head_dim = 0;
  std::int64_t value_head_dim = 0;
  bool interleaved = true;  ///< a rotated pair is (2i, 2i + 1) of the input, not (i, i + rope_head_dim / 2)
};

/// Queries [N, H·(nope + rope)], keys' unrotated parts with the values [N, H·(nope + value)], and the one rotary key of all heads [N, rope] as the
/// heads attention takes: queries and keys [B, T, H, nope + rope], values [B, T, H, value] (a view). The last parts of queries and keys are rotated
/// by the table, and come out in half-split order. Backward: the shared key's gradient is the sum over heads, made in fp32 (fp64).
HeadViews latent_heads(Tape& tape, const Variable& query, const Variable& key_value, const Variable& rotary_key, const RopeTable& table,
                       const LatentHeadsOptions& options);

/// Columns [0, width) and the rest of [N, I], each contiguous.
struct ColumnParts {
  Variable first, second;
};
ColumnParts split_columns(Tape& tape, const Variable& input_NI, std::int64_t width);

}  // namespace tessera::ops
