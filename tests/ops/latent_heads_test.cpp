#include "tessera/ops/latent_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

constexpr std::int64_t kRows = 2, kTokens = 6, kHeads = 3, kNope = 4, kRope = 6, kValue = 5;

RopeTable table(at::ScalarType type) {
  const at::Tensor angles = random_tensor({kTokens, kRope / 2}, 11);
  return {angles.cos().to(type), angles.sin().to(type)};
}

/// Pair by pair, from the definition.
at::Tensor turned(const at::Tensor& values, const RopeTable& table, bool interleaved) {
  std::vector<at::Tensor> first, second;
  for (std::int64_t i = 0; i < kRope / 2; ++i) {
    const at::Tensor a = values.select(-1, interleaved ? 2 * i : i), b = values.select(-1, interleaved ? 2 * i + 1 : i + kRope / 2);
    const at::Tensor cosine = table.cosines_NR.select(1, i).to(at::kDouble).unsqueeze(1),
                     sine = table.sines_NR.select(1, i).to(at::kDouble).unsqueeze(1);
    first.push_back(a * cosine - b * sine);
    second.push_back(b * cosine + a * sine);
  }
  return at::cat({at::stack(first, -1), at::stack(second, -1)}, -1);
}

class LatentHeads : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, LatentHeads, every_precision(), precision_name);

TEST_P(LatentHeads, QueriesKeysAndValuesWithTheirGradients) {
  for (const bool interleaved : {true, false}) {
    Trial trial(GetParam());
    const RopeTable angles = table(GetParam().type == at::kDouble ? at::kDouble : at::kFloat);
    const LatentHeadsOptions options{kRows, kHeads, kNope, kRope, kValue, interleaved};
    Trial::Leaf& query = trial.activation("query", {kTokens, kHeads * (kNope + kRope)});
    Trial::Leaf& key_value = trial.activation("key_value", {kTokens, kHeads * (kNope + kValue)});
    Trial::Leaf& rotary = trial.activation("rotary key", {kTokens, kRope});
    const HeadViews heads = latent_heads(trial.tape(), query.variable, key_value.variable, rotary.variable, angles, options);
    const at::Tensor q = query.twin.view({kTokens, kHeads, -1}), kv = key_value.twin.view({kTokens, kHeads, -1});
    const at::Tensor shared = turned(rotary.twin.unsqueeze(1), angles, interleaved).expand({kTokens, kHeads, kRope});
    const at::Tensor expected = at::cat(
        {q.narrow(2, 0, kNope), turned(q.narrow(2, kNope, kRope), angles, interleaved), kv.narrow(2, 0, kNope), shared, kv.narrow(2, kNope, kValue)},
        2);
    // One output that holds all three, so that their gradients are compared together.
    const auto flat = [](const Variable& part) { return part.value.flatten(0, 1); };
    Variable joined = trial.tape().variable(at::cat({flat(heads.query_BTHC), flat(heads.key_BTKC), flat(heads.value_BTKC)}, 2));
    trial.tape().record([&heads, out = joined.gradient] {
      const at::Tensor gradient = out->take().unflatten(0, {kRows, -1});
      heads.query_BTHC.gradient->add_owned(gradient.narrow(3, 0, kNope + kRope).clone());
      heads.key_BTKC.gradient->add_owned(gradient.narrow(3, kNope + kRope, kNope + kRope).clone());
      heads.value_BTKC.gradient->add_owned(gradient.narrow(3, 2 * (kNope + kRope), kValue).clone());
    });
    trial.expect(joined, expected);
  }
}

TEST_P(LatentHeads, ColumnsAreSplitAndJoined) {
  Trial trial(GetParam());
  Trial::Leaf& input = trial.activation("input", {4, 7});
  const ColumnParts parts = split_columns(trial.tape(), input.variable, 3);
  EXPECT_TRUE(parts.first.value.is_contiguous() && parts.second.value.is_contiguous());
  Variable joined = trial.tape().variable(at::cat({parts.second.value, parts.first.value}, 1));
  trial.tape().record([&parts, out = joined.gradient] {
    const at::Tensor gradient = out->take();
    parts.second.gradient->add_owned(gradient.narrow(1, 0, 4).clone());
    parts.first.gradient->add_owned(gradient.narrow(1, 4, 3).clone());
  });
  trial.expect(joined, at::cat({input.twin.narrow(1, 3, 4), input.twin.narrow(1, 0, 3)}, 1));
}

}  // namespace
}  // namespace tessera::ops::test
