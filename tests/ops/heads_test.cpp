#include "tessera/ops/heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/residual.h"

namespace tessera::ops::test {
namespace {

/// Angles of any size, one set per token, with an attention factor of 1.2.
RopeTable angles(std::int64_t tokens, std::int64_t pairs, at::ScalarType type) {
  const at::Tensor angle = random_tensor({tokens, pairs}, 5) * 3.0;
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {(at::cos(angle) * 1.2).to(wide), (at::sin(angle) * 1.2).to(wide)};
}

at::Tensor rotated(const at::Tensor& matrix, const RopeTable& table, std::int64_t heads, std::int64_t head_dim) {
  const std::int64_t half = table.cosines_NR.size(1);
  const at::Tensor cosines = table.cosines_NR.to(at::kDouble), sines = table.sines_NR.to(at::kDouble);
  std::vector<at::Tensor> columns;
  for (std::int64_t head = 0; head < heads; ++head) {
    const at::Tensor part = matrix.narrow(1, head * head_dim, head_dim);
    const at::Tensor a = part.narrow(1, 0, half), b = part.narrow(1, half, half);
    columns.insert(columns.end(), {a * cosines - b * sines, b * cosines + a * sines, part.narrow(1, 2 * half, head_dim - 2 * half)});
  }
  columns.push_back(matrix.narrow(1, heads * head_dim, matrix.size(1) - heads * head_dim));
  return at::cat(columns, 1);
}

class Heads : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Heads, every_precision(), precision_name);

TEST_P(Heads, RotateTheFirstHeadsAndLeaveTheRest) {
  // rotary_dim equal to and smaller than the head; one token and many.
  for (const std::int64_t pairs : {3, 5, 2}) {
    for (const std::int64_t tokens : {1, 14}) {
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("projection", {tokens, 40});
      const RopeTable table = angles(tokens, pairs, GetParam().type);
      trial.expect(rotate_in_place(trial.tape(), x.variable, table, 3, 10), rotated(x.twin, table, 3, 10));
    }
  }
}

TEST_P(Heads, RotationIsInPlace) {
  Tape tape;
  const Variable x = tape.variable(random_tensor({4, 12}, 1, GetParam().type));
  EXPECT_TRUE(rotate_in_place(tape, x, angles(4, 3, GetParam().type), 2, 6).value.is_same(x.value));
}

TEST_P(Heads, SplitIsAViewAndBackwardJoinsThreeGradients) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("projection", {6, 40});
  const HeadViews views = split_heads(trial.tape(), x.variable, 2, 4, 2, 5);
  EXPECT_TRUE(views.query_BTHC.value.is_alias_of(x.variable.value));
  EXPECT_EQ(views.query_BTHC.value.sizes(), at::IntArrayRef({2, 3, 4, 5}));
  EXPECT_EQ(views.value_BTKC.value.sizes(), at::IntArrayRef({2, 3, 2, 5}));
  const at::Tensor gradient = random_tensor({6, 40}, 3, GetParam().type);
  const auto part = [&](std::int64_t start, std::int64_t heads) {
    return gradient.narrow(1, start, heads * 5).reshape({2, 3, heads, 5}).contiguous();
  };
  views.query_BTHC.gradient->add_owned(part(0, 4));
  views.key_BTKC.gradient->add_owned(part(20, 2));
  views.value_BTKC.gradient->add_owned(part(30, 2));
  trial.tape().backward();
  EXPECT_TRUE(bitwise_equal(x.variable.gradient->value(), gradient));
}

TEST_P(Heads, GradientsThatLieSideBySideAreNotCopied) {
  Tape tape;
  const Variable x = tape.variable(random_tensor({6, 40}, 1, GetParam().type));
  const HeadViews views = split_heads(tape, x, 2, 4, 2, 5);
  const HeadGradients gradients = adjacent_head_gradients(views.query_BTHC.value, views.key_BTKC.value, views.value_BTKC.value);
  gradients.query.copy_(views.query_BTHC.value);
  gradients.key.copy_(views.key_BTKC.value);
  gradients.value.copy_(views.value_BTKC.value);
  views.query_BTHC.gradient->add_owned(gradients.query);
  views.key_BTKC.gradient->add_owned(gradients.key);
  views.value_BTKC.gradient->add_owned(gradients.value);
  tape.backward();
  EXPECT_TRUE(x.gradient->value().is_alias_of(gradients.query));
  EXPECT_TRUE(bitwise_equal(x.gradient->value(), x.value));
}

TEST(HeadGradients, HaveTheirOwnShapesWhenKeysAreMoreThanQueries) {
  const at::Tensor query = random_tensor({2, 3, 4, 5}, 1), key = random_tensor({2, 7, 2, 5}, 2);
  const HeadGradients gradients = adjacent_head_gradients(query, key, key);
  EXPECT_EQ(gradients.query.sizes(), query.sizes());
  EXPECT_EQ(gradients.key.sizes(), key.sizes());
  EXPECT_EQ(gradients.value.sizes(), key.sizes());
}

}  // namespace
}  // namespace tessera::ops::test
