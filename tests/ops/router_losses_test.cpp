#include "tessera/ops/router_losses.h"

#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/router.h"

namespace tessera::ops::test {
namespace {

using testing::ElementsAre;

/// Σ_groups tokens · loss by the definition, differentiable by libtorch.
at::Tensor formula(const at::Tensor& shares, const at::Tensor& chosen, const std::vector<std::int64_t>& group, std::int64_t num_groups) {
  const std::int64_t experts = shares.size(1), choices = chosen.size(1);
  at::Tensor total = at::zeros({}, at::kDouble);
  for (std::int64_t number = 0; number < num_groups; ++number) {
    std::vector<double> counts(static_cast<std::size_t>(experts));
    at::Tensor scores = at::zeros({experts}, at::kDouble);
    double tokens = 0.0;
    for (std::int64_t token = 0; token < shares.size(0); ++token) {
      if (group[static_cast<std::size_t>(token)] != number) continue;
      tokens += 1.0;
      scores = scores + shares[token];
      for (std::int64_t k = 0; k < choices; ++k) ++counts[static_cast<std::size_t>(chosen[token][k].item<std::int64_t>())];
    }
    if (tokens == 0.0) continue;
    const double factor = static_cast<double>(experts) / (static_cast<double>(choices) * tokens * tokens);
    total = total + (at::tensor(counts, at::kDouble) * scores).sum() * factor * tokens;
  }
  return total;
}

TEST(BalanceLoss, HasTheGradientOfItsDefinition) {
  const std::vector<std::int64_t> groups = {0, 0, 1, 2, 2, 2, -1};  // the last is padding; no token has group 3
  for (const RouterScoring scoring : {RouterScoring::SoftmaxThenTopK, RouterScoring::Sigmoid}) {
    Tape tape;
    const Variable logits = tape.variable(random_tensor({7, 5}, 3));
    const at::Tensor twin = logits.value.clone().set_requires_grad(true);
    const at::Tensor chosen = choose_experts(logits.value, {}, {.scoring = scoring, .num_choices = 2});
    const at::Tensor group = index_tensor(groups);
    const ExpertLoads loads = expert_loads(logits.value, chosen, group, 4, scoring);
    add_balance_gradient(tape, logits, group, loads, 2, scoring, 0.3);
    const at::Tensor scores = scoring == RouterScoring::Sigmoid ? twin.sigmoid() : at::softmax(twin, -1);
    const at::Tensor expected = formula(scores / scores.sum({-1}, true), chosen, groups, 4);
    EXPECT_NEAR((balance_losses(loads, 2) * loads.tokens_G).sum().item<double>(), expected.item<double>(), 1e-12);
    (expected * 0.3).backward();
    tape.backward();
    EXPECT_LE(relative_error(logits.gradient->value(), twin.grad()), 1e-10);
  }
}

TEST(BalanceLoss, IsOneWhenChoicesAreSpreadEvenly) {
  const at::Tensor logits = at::zeros({4, 4}, at::kDouble);
  const at::Tensor chosen = index_tensor({0, 1, 2, 3, 0, 1, 2, 3}).view({4, 2});
  const ExpertLoads loads = expert_loads(logits, chosen, index_tensor({0, 0, 0, 0}), 1, RouterScoring::SoftmaxThenTopK);
  EXPECT_NEAR(balance_losses(loads, 2).item<double>(), 1.0, 1e-12);
}

TEST(ZLoss, HasTheGradientOfItsDefinition) {
  Tape tape;
  const Variable logits = tape.variable(random_tensor({5, 6}, 4));
  const at::Tensor twin = logits.value.clone().set_requires_grad(true);
  const at::Tensor group = index_tensor({0, -1, 1, 1, -1});
  const at::Tensor expected = (at::logsumexp(twin, {-1}).square() * at::tensor({1.0, 0.0, 1.0, 1.0, 0.0}, at::kDouble)).sum();
  EXPECT_NEAR(z_loss(logits.value, group).item<double>(), expected.item<double>(), 1e-12);
  add_z_gradient(tape, logits, group, 0.5);
  (expected * 0.5).backward();
  tape.backward();
  EXPECT_LE(relative_error(logits.gradient->value(), twin.grad()), 1e-10);
}

TEST(Capacity, TheLargestWeightsStay) {
  const at::Tensor experts = index_tensor({0, 1, 0, 1, 0, 1, 0, 1}).view({4, 2});
  const at::Tensor weights = at::tensor({0.4, 0.6, 0.9, 0.1, 0.4, 0.6, 0.5, 0.5}, at::kDouble).view({4, 2});
  std::int64_t dropped = 0;
  const at::Tensor kept = limit_capacity(experts, weights, index_tensor({0, 0, 0, -1}), 2, 2, dropped);
  const at::Tensor flat = kept.reshape({-1});
  // Expert 0 keeps tokens 1 and 0 (an equal weight of an earlier token), expert 1 tokens 0 and 2; token 3 is padding.
  EXPECT_THAT(std::vector<std::int64_t>(flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + 8), ElementsAre(0, 1, 0, -1, -1, 1, -1, -1));
  EXPECT_EQ(dropped, 2);
}

}  // namespace
}  // namespace tessera::ops::test
