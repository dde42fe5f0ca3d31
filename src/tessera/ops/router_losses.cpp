#include "tessera/ops/router_losses.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tessera/ops/router.h"

namespace tessera::ops {
namespace {

/// 1 for tokens that count, else 0, [N, 1].
at::Tensor counted(const at::Tensor& group_N, const at::Tensor& like) { return group_N.ge(0).to(like.scalar_type()).unsqueeze(1); }

/// The gradient of logits whose shares have this gradient.
at::Tensor shares_backward(const at::Tensor& gradient_NE, const at::Tensor& logits_NE, RouterScoring scoring) {
  const at::Tensor shares = score_shares(logits_NE, scoring);
  const at::Tensor relative = gradient_NE - at::sum(gradient_NE * shares, {-1}, true);
  if (scoring != RouterScoring::Sigmoid) return shares * relative;
  // The share's own factor s / Σs, times the slope of the sigmoid, 1 − s.
  return shares * relative * (1.0 - at::sigmoid(logits_NE));
}

}  // namespace

at::Tensor score_shares(const at::Tensor& logits_NE, RouterScoring scoring) {
  if (scoring != RouterScoring::Sigmoid) return at::softmax(logits_NE, -1);
  const at::Tensor scores = at::sigmoid(logits_NE);
  return scores / (at::sum(scores, {-1}, true) + kSmallestSum);
}

ExpertLoads expert_loads(const at::Tensor& logits_NE, const at::Tensor& experts_NK, const at::Tensor& group_N, std::int64_t num_groups,
                         RouterScoring scoring) {
  const auto options = logits_NE.options();
  const at::Tensor counts = counted(group_N, logits_NE), group = group_N.clamp_min(0);
  const at::Tensor chosen_NE = at::zeros(logits_NE.sizes(), options).scatter_(1, experts_NK, 1.0) * counts;
  const auto by_group = [&](const at::Tensor& values) { return at::zeros({num_groups, values.size(1)}, options).index_add_(0, group, values); };
  return {by_group(chosen_NE), by_group(score_shares(logits_NE, scoring) * counts), by_group(counts).squeeze(1)};
}

at::Tensor balance_losses(const ExpertLoads& loads, std::int64_t num_choices) {
  const double factor = static_cast<double>(loads.choices_GE.size(1)) / static_cast<double>(num_choices);
  return at::sum(loads.choices_GE * loads.scores_GE, {1}) * factor / loads.tokens_G.clamp_min(1.0).square();
}

void add_balance_gradient(Tape& tape, const Variable& logits_NE, const at::Tensor& group_N, const ExpertLoads& loads, std::int64_t num_choices,
                          RouterScoring scoring, double scale) {
  tape.record([logits = logits_NE.value, group_N, loads, num_choices, scoring, scale, slot = logits_NE.gradient] {
    if (slot == nullptr) return;
    const double factor = scale * static_cast<double>(logits.size(1)) / static_cast<double>(num_choices);
    const at::Tensor gradient_GE = loads.choices_GE * factor / loads.tokens_G.clamp_min(1.0).unsqueeze(1);
    const at::Tensor gradient_NE = at::index_select(gradient_GE, 0, group_N.clamp_min(0)) * counted(group_N, logits);
    slot->add_owned(shares_backward(gradient_NE, logits, scoring));
  });
}

at::Tensor z_loss(const at::Tensor& logits_NE, const at::Tensor& group_N) {
  return at::sum(at::logsumexp(logits_NE, {-1}, true).square() * counted(group_N, logits_NE));
}

void add_z_gradient(Tape& tape, const Variable& logits_NE, const at::Tensor& group_N, double scale) {
  tape.record([logits = logits_NE.value, group_N, scale, slot = logits_NE.gradient] {
    if (slot == nullptr) return;
    slot->add_owned(at::softmax(logits, -1) * (at::logsumexp(logits, {-1}, true) * counted(group_N, logits) * (2.0 * scale)));
  });
}

at::Tensor limit_capacity(const at::Tensor& experts_NK, const at::Tensor& weights_NK, const at::Tensor& group_N, std::int64_t num_experts,
                          std::int64_t capacity, std::int64_t& dropped) {
  at::Tensor limited = experts_NK.cpu().clone();
  const at::Tensor weights = weights_NK.cpu().to(at::kDouble).contiguous(), groups = group_N.cpu().contiguous();
  std::int64_t* const experts = limited.data_ptr<std::int64_t>();
  std::vector<std::vector<std::int64_t>> choices(static_cast<std::size_t>(num_experts));
  for (std::int64_t choice = 0; choice < limited.numel(); ++choice) {
    if (groups.data_ptr<std::int64_t>()[choice / limited.size(1)] < 0) {
      experts[choice] = -1;
    } else {
      choices[static_cast<std::size_t>(experts[choice])].push_back(choice);
    }
  }
  for (std::vector<std::int64_t>& own : choices) {
    if (std::ssize(own) <= capacity) continue;
    std::ranges::stable_sort(own, std::greater<>(), [&](std::int64_t choice) { return weights.data_ptr<double>()[choice]; });
    for (std::size_t place = static_cast<std::size_t>(capacity); place < own.size(); ++place) experts[own[place]] = -1;
    dropped += std::ssize(own) - capacity;
  }
  return limited.to(experts_NK.device());
}

}  // namespace tessera::ops
