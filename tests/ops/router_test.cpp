#include "tessera/ops/router.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1}).contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

at::Tensor row(const std::vector<double>& values) { return at::tensor(values, at::kDouble).unsqueeze(0); }

TEST(Router, EqualScoresGoToTheSmallerNumber) {
  const RouterOptions options{.num_choices = 3};
  EXPECT_THAT(values_of(choose_experts(row({1, 2, 2, 0, 2}), {}, options)), ElementsAre(1, 2, 4));
  EXPECT_THAT(values_of(choose_experts(row({0, 0, 0, 0, 0}), {}, options)), ElementsAre(0, 1, 2));
}

TEST(Router, TheCorrectionBiasCountsForTheChoiceAlone) {
  const RouterOptions options{.scoring = RouterScoring::Sigmoid, .num_choices = 2};
  const at::Tensor logits = row({1.0, 0.5, 0.0, -0.5});
  EXPECT_THAT(values_of(choose_experts(logits, {}, options)), ElementsAre(0, 1));
  const at::Tensor chosen = choose_experts(logits, at::tensor({0.0, 0.0, 0.0, 1.0}, at::kDouble), options);
  EXPECT_THAT(values_of(chosen), ElementsAre(3, 0));
  Tape tape;
  const Variable weights = expert_weights(tape, tape.variable(logits), chosen, options, at::kDouble);
  EXPECT_LE(relative_error(weights.value, at::gather(at::sigmoid(logits), 1, chosen)), 1e-12);
}

TEST(Router, OnlyTheBestGroupsServeAToken) {
  // Groups of two: their two scores add up to 1.0, 1.1 and 0.9, so the best single expert (in the last group) cannot be chosen.
  const at::Tensor scores = row({0.5, 0.5, 0.6, 0.5, 0.85, 0.05});
  const at::Tensor logits = (scores / (1.0 - scores)).log();
  const RouterOptions options{.scoring = RouterScoring::Sigmoid, .num_choices = 2, .num_groups = 3, .groups_per_token = 2};
  EXPECT_THAT(values_of(choose_experts(logits, {}, options)), ElementsAre(2, 0));
}

/// Weights by the plain formula, differentiable by libtorch.
at::Tensor formula(const at::Tensor& logits, const at::Tensor& chosen, const RouterOptions& options) {
  at::Tensor weights;
  if (options.scoring == RouterScoring::TopKThenSoftmax) {
    weights = at::softmax(at::gather(logits, 1, chosen), -1);
  } else {
    const at::Tensor scores = options.scoring == RouterScoring::Sigmoid ? at::sigmoid(logits) : at::softmax(logits, -1);
    weights = at::gather(scores, 1, chosen);
  }
  if (options.normalize) weights = weights / weights.sum({-1}, true);
  return weights * options.scale;
}

TEST(Router, WeightsOfEveryScoringHaveTheirGradients) {
  for (const RouterScoring scoring : {RouterScoring::SoftmaxThenTopK, RouterScoring::TopKThenSoftmax, RouterScoring::Sigmoid}) {
    for (const bool normalize : {false, true}) {
      Trial trial(kDouble);
      const RouterOptions options{.scoring = scoring, .num_choices = 3, .normalize = normalize, .scale = 2.5};
      Trial::Leaf& logits = trial.activation("logits", {7, 8}, 2.0);
      const at::Tensor chosen = choose_experts(logits.variable.value, {}, options);
      trial.expect(expert_weights(trial.tape(), logits.variable, chosen, options, at::kDouble), formula(logits.twin, chosen, options));
    }
  }
}

TEST(Router, LogitsAreALinearOperatorInAWiderType) {
  Trial trial(kDouble);
  Trial::Leaf& tokens = trial.activation("tokens", {6, 5});
  Trial::Leaf& weight = trial.weight("weight", {4, 5});
  Trial::Leaf& bias = trial.weight("bias", {4});
  trial.expect(router_logits(trial.tape(), tokens.variable, weight.parameter, &bias.parameter), tokens.twin.matmul(weight.twin.t()) + bias.twin);
  Tape tape;
  Parameter half = make_parameter(random_tensor({4, 5}, 3, at::kBFloat16));
  const Variable logits = router_logits(tape, tape.variable(random_tensor({6, 5}, 4, at::kBFloat16)), half, nullptr);
  EXPECT_EQ(logits.value.scalar_type(), at::kFloat);
}

TEST(Router, RoundingOfTheProductDoesNotDecide) {
  // Both logits are 1 when summed in fp32, whatever the order; the second is larger by 2⁻³⁰.
  const float tiny = std::ldexp(1.0F, -30);
  const at::Tensor tokens = at::tensor({1.0F, tiny}).view({1, 2});
  Parameter weight = make_parameter(at::tensor({1.0F, 0.0F, 1.0F, 1.0F}).view({2, 2}));
  Tape tape;
  const Variable logits = router_logits(tape, tape.variable(tokens), weight, nullptr);
  for (const RouterScoring scoring : {RouterScoring::SoftmaxThenTopK, RouterScoring::TopKThenSoftmax, RouterScoring::Sigmoid})
    EXPECT_THAT(values_of(choose_experts(logits.value, {}, {.scoring = scoring})), ElementsAre(1));
  EXPECT_EQ(expert_weights(tape, logits, at::ones({1, 1}, at::kLong), {}, at::kFloat).value.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace tessera::ops::test
