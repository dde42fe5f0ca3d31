#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// What one attention layer computes. Query t of a row stands at position query_start + t, key s at position s.
struct AttentionOptions {
  double scale = 1.0;                               ///< multiplies q·k
  std::optional<double> soft_cap = {};              ///< logit = cap · tanh(logit / cap)
  std::optional<std::int64_t> sliding_window = {};  ///< sees itself and this many − 1 earlier positions
  std::int64_t query_start = 0;
  std::vector<std::int64_t> lengths = {};                       ///< valid keys (and queries) of each row; empty: all
  std::vector<std::vector<std::int64_t>> document_starts = {};  ///< per row, ascending from 0; attention never crosses a start; empty: one document
  double dropout = 0.0;                                         ///< of attention weights, when the tape trains
  std::uint64_t dropout_key = 0;
  std::vector<std::int64_t> sample_numbers = {};  ///< per row, for dropout
};

/// Causal grouped-query attention. query [B, T, H, C], key and value [B, S, K, C] with any strides (last dim contiguous); K divides H.
/// Output [B·T, H·C], contiguous. A query that sees nothing gives zeros. No T × S buffer on CPUs (flash attention, Dao et al. 2022); elsewhere and
/// in fp64 a composite that has one.
Variable attention(Tape& tape, const Variable& query_BTHC, const Variable& key_BSKC, const Variable& value_BSKC, const AttentionOptions& options);

/// One new query per row over cached keys and values: query [B, 1, H, C], key and value [B, S, K, C] of which the first lengths[b] are valid, the
/// query being the last of them. Output [B, H·C]. For generation; bound by reading the cache.
at::Tensor decode_attention(const at::Tensor& query_B1HC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options);

}  // namespace tessera::ops
