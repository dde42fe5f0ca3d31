#include "tessera/ops/expert_order.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

using testing::ElementsAre;

class ExpertRows : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, ExpertRows, every_precision(), precision_name);

std::vector<std::int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1}).contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

/// Four tokens with two choices among five experts, of which one is nobody's; two choices were dropped.
at::Tensor some_choices() { return index_tensor({3, 0, 0, -1, 4, 3, -1, 0}).view({4, 2}); }

TEST(ExpertOrder, SortsByExpertThenByToken) {
  const ExpertOrder order = sort_by_expert(some_choices(), 5);
  EXPECT_THAT(order.rows_per_expert, ElementsAre(3, 0, 0, 2, 1));
  EXPECT_THAT(values_of(order.tokens_R), ElementsAre(0, 1, 3, 0, 2, 2));
  EXPECT_THAT(values_of(order.rows_NK), ElementsAre(3, 0, 1, -1, 5, 4, -1, 2));
}

TEST(ExpertOrder, NobodyChosen) {
  const ExpertOrder order = sort_by_expert(index_tensor({-1, -1}).view({2, 1}), 2);
  EXPECT_THAT(order.rows_per_expert, ElementsAre(0, 0));
  EXPECT_EQ(order.tokens_R.numel(), 0);
}

TEST_P(ExpertRows, GathersTheTokenOfEachRow) {
  Trial trial(GetParam());
  Trial::Leaf& tokens = trial.activation("tokens", {4, 21});
  const ExpertOrder order = sort_by_expert(some_choices(), 5);
  trial.expect(gather_tokens(trial.tape(), tokens.variable, order), tokens.twin.index_select(0, order.tokens_R));
}

TEST_P(ExpertRows, CombinesByWeights) {
  Trial trial(GetParam());
  const ExpertOrder order = sort_by_expert(some_choices(), 5);
  Trial::Leaf& rows = trial.activation("rows", {6, 21});
  // Weights are fp32 beside bf16 rows.
  Trial weight_trial({GetParam().type == at::kBFloat16 ? at::kFloat : GetParam().type, GetParam().tolerance});
  Trial::Leaf& weights = weight_trial.activation("weights", {4, 2});
  at::Tensor expected = at::zeros({4, 21}, at::kDouble);
  const auto add = [&](std::int64_t token, std::int64_t k, std::int64_t row) {
    expected = expected.index_add(0, index_tensor({token}), (rows.twin[row] * weights.twin[token][k]).unsqueeze(0));
  };
  add(0, 0, 3);
  add(0, 1, 0);
  add(1, 0, 1);
  add(2, 0, 5);
  add(2, 1, 4);
  add(3, 1, 2);
  trial.expect(combine_experts(trial.tape(), rows.variable, order, weights.variable), expected);
  EXPECT_LE(relative_error(weights.variable.gradient->value(), weights.twin.grad()), GetParam().tolerance);
}

TEST_P(ExpertRows, TokensThatWereDroppedGiveZero) {
  const Precision precision = GetParam();
  Trial trial(precision);
  const ExpertOrder order = sort_by_expert(index_tensor({-1, -1}).view({2, 1}), 3);
  Trial::Leaf& tokens = trial.activation("tokens", {2, 5});
  const Variable rows = gather_tokens(trial.tape(), tokens.variable, order);
  EXPECT_EQ(rows.value.size(0), 0);
  const Variable weights{at::ones({2, 1}, precision.type == at::kDouble ? at::kDouble : at::kFloat), nullptr, nullptr};
  trial.expect(combine_experts(trial.tape(), rows, order, weights), tokens.twin * 0.0);
}

}  // namespace
}  // namespace tessera::ops::test
