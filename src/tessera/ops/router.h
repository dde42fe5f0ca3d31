#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/ops/parameter.h"
#include "tessera/ops/router_scoring.h"
#include "tessera/ops/tape.h"

/// The choice of experts by a linear router, in a wider dtype than the tokens' (fp32 for half-width tokens, else fp64): small differences between
/// logits decide, and the product is a small one.
namespace tessera::ops {

/// Added to the sum of a token's scores before they are divided by it, as transformers does: keeps the weights finite where all are zero.
inline constexpr double kSmallestSum = 1e-20;

struct RouterOptions {
  RouterScoring scoring = RouterScoring::SoftmaxThenTopK;
  std::int64_t num_choices = 1;       ///< k
  bool normalize = false;             ///< weights of a token are divided by their sum (TopKThenSoftmax: they sum to 1 anyway)
  double scale = 1.0;                 ///< multiplies the weights
  std::int64_t num_groups = 1;        ///< experts are in this many equal groups; a group's worth is the sum of its two best scores
  std::int64_t groups_per_token = 1;  ///< only experts of a token's best groups can be chosen
};

/// tokens_ND · weight_EDᵀ (+ bias_E), [N, E] in fp32 for half-width tokens, else in fp64. Backward in the tokens' dtype, at least fp32, as
/// ops::linear.
Variable router_logits(Tape& tape, const Variable& tokens_ND, Parameter& weight_ED, Parameter* bias_E);

/// softmax or sigmoid of the logits, [N, E]; for TopKThenSoftmax the softmax over all experts.
at::Tensor router_scores(const at::Tensor& logits_NE, RouterScoring scoring);

/// The k experts of each token, best first, int64 [N, k]; among equals the one with the smaller number. `correction_E` (may be undefined) is added to
/// the scores for the choice alone.
at::Tensor choose_experts(const at::Tensor& logits_NE, const at::Tensor& correction_E, const RouterOptions& options);

/// The weights of chosen experts (int64 [N, k], none dropped), [N, k] in `type`; differentiable.
Variable expert_weights(Tape& tape, const Variable& logits_NE, const at::Tensor& experts_NK, const RouterOptions& options, at::ScalarType type);

}  // namespace tessera::ops
