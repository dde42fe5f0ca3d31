#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/ops/router_scoring.h"
#include "tessera/ops/tape.h"

/// Losses that keep experts busy. They have no output: their gradient joins that of the router's logits, and their values are for logs.
namespace tessera::ops {

/// Loads and scores of groups of tokens (sequences, or all tokens together): what a balance loss is made of.
struct ExpertLoads {
  at::Tensor choices_GE;  ///< how many of the group's choices went to the expert
  at::Tensor scores_GE;   ///< sum over its tokens of the expert's share of the scores
  at::Tensor tokens_G;    ///< all in the logits' dtype
};
/// Each expert's share of a token's scores: a softmax, or sigmoids divided by their sum; [N, E].
at::Tensor score_shares(const at::Tensor& logits_NE, RouterScoring scoring);
/// `group_N`: int64, the group of each token, −1 for tokens that count nowhere. `experts_NK`: before any are dropped.
ExpertLoads expert_loads(const at::Tensor& logits_NE, const at::Tensor& experts_NK, const at::Tensor& group_N, std::int64_t num_groups,
                         RouterScoring scoring);

/// E / (k · tokens²) · Σ_e choices · scores of each group, [G]: 1 when choices are spread evenly (Shazeer et al. 2017, Fedus et al. 2021 (arXiv
/// 2101.03961); by sequences: DeepSeek-V3 (arXiv 2412.19437)). 0 for groups without tokens.
at::Tensor balance_losses(const ExpertLoads& loads, std::int64_t num_choices);
/// Records the gradient of scale · Σ_G tokens · loss, through the scores alone. `loads` may count tokens of other ranks too.
void add_balance_gradient(Tape& tape, const Variable& logits_NE, const at::Tensor& group_N, const ExpertLoads& loads, std::int64_t num_choices,
                          RouterScoring scoring, double scale);

/// Sum over tokens that count of logsumexp(logits)² (Zoph et al. 2022, arXiv 2202.08906), a scalar, and the gradient of `scale` times it.
at::Tensor z_loss(const at::Tensor& logits_NE, const at::Tensor& group_N);
void add_z_gradient(Tape& tape, const Variable& logits_NE, const at::Tensor& group_N, double scale);

/// Experts with more than `capacity` choices keep those with the largest weights, among equals the earlier; the others become −1, and so do all
/// choices of tokens that count nowhere. Returns the choices and, in `dropped`, how many of counted tokens were lost.
at::Tensor limit_capacity(const at::Tensor& experts_NK, const at::Tensor& weights_NK, const at::Tensor& group_N, std::int64_t num_experts,
                          std::int64_t capacity, std::int64_t& dropped);

}  // namespace tessera::ops
