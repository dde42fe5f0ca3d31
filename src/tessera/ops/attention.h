#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ops/heads.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// What one attention layer computes. Query t of a row stands at position query_start + t, key s at position key_start + s.
struct AttentionOptions {
  double scale = 1.0;                               ///< multiplies q·k
  std::optional<double> soft_cap = {};              ///< logit = cap · tanh(logit / cap)
  std::optional<std::int64_t> sliding_window = {};  ///< sees itself and this many − 1 earlier positions
  std::int64_t query_start = 0;
  std::int64_t key_start = 0;
  std::vector<std::int64_t> lengths = {};  ///< positions from there on are padding, of each row; empty: none are
  /// Per row, ascending from 0; attention never crosses a start; empty: one document. Only where queries and keys start at 0.
  std::vector<std::vector<std::int64_t>> document_starts = {};
  /// One more logit of each query head [H], which has no value: it takes a share of every softmax (gpt_oss). attention_forward and attention_backward
  /// leave it out, because it counts once however many parts of the keys are merged: see with_sinks.
  Parameter* sinks = nullptr;
  std::int64_t first_sink = 0;  ///< which of them is query head 0's, where there are more
  double dropout = 0.0;         ///< of attention weights, when the tape trains
  std::uint64_t dropout_key = 0;
  std::int64_t first_head = 0;                    ///< number of query head 0 in the whole model, for dropout
  std::vector<std::int64_t> sample_numbers = {};  ///< per row, for dropout
};

/// Causal grouped-query attention. query [B, T, H, C], key and value [B, S, K, C] with any strides (last dim contiguous); K divides H.
/// Output [B·T, H·C], contiguous. A query that sees nothing gives zeros. No T × S buffer on CPUs (flash attention, Dao et al. 2022); elsewhere and
/// in fp64 a composite that has one.
Variable attention(Tape& tape, const Variable& query_BTHC, const Variable& key_BSKC, const Variable& value_BSKC, const AttentionOptions& options);

/// The two directions of it without a tape, for softmaxes that go over more keys than are at hand (context parallelism): results over different keys
/// merge by their log-sum-exps, and backward, given the merged ones, computes these keys' share of the gradients. Merged results and shares are fp32
/// (fp64 for fp64), because several are added up.
struct AttentionResult {
  at::Tensor output_BTHC;  ///< in the query's dtype, or fp32 when asked
  at::Tensor lse_BHT;      ///< fp32 (fp64); −infinity where nothing is seen
};
AttentionResult attention_forward(const at::Tensor& query_BTHC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                                  const AttentionOptions& options, bool drops, bool single_output);
/// The result once options.sinks, which is not null, have taken their share.
AttentionResult with_sinks(const AttentionResult& result, const AttentionOptions& options);
/// Delivers the sinks' gradient: −Σ exp(sink − lse) · (output · doutput) over rows and queries. `result`: with sinks.
void deliver_sinks_gradient(const AttentionOptions& options, const AttentionResult& result, const at::Tensor& output_gradient_BTHC);

/// `result`: the merged one, its output in the query's dtype.
HeadGradients attention_backward(const at::Tensor& query_BTHC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                                 const AttentionResult& result, const at::Tensor& output_gradient_BTHC, const AttentionOptions& options, bool drops,
                                 bool single_gradients);

/// One new query per row over cached keys and values: query [B, 1, H, C], key and value [B, S, K, C] of which the first lengths[b] are valid, the
/// query being the last of them. Output [B, H·C]. For generation; bound by reading the cache.
at::Tensor decode_attention(const at::Tensor& query_B1HC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options);

}  // namespace tessera::ops
