#include "tessera/ops/activation_pool.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <gtest/gtest.h>

namespace tessera::ops {
namespace {

TEST(ActivationPool, GivesBackWhatItKeptInTheOppositeOrder) {
  ActivationPool pool(1 << 20);
  for (int step = 0; step < 3; ++step) {
    std::vector<std::function<at::Tensor()>> kept;
    for (std::int64_t i = 0; i < 5; ++i) kept.push_back(pool.keep(at::full({7, 3}, i + 10 * step, at::kFloat)));
    for (std::int64_t i = 4; i >= 0; --i) EXPECT_TRUE(at::equal(kept[static_cast<std::size_t>(i)](), at::full({7, 3}, i + 10 * step, at::kFloat)));
    EXPECT_EQ(pool.bytes(), 5 * 7 * 3 * 4) << "memory is used again";
  }
}

TEST(ActivationPool, LeavesWhereItIsWhatItHasNoRoomFor) {
  ActivationPool pool(100);
  const at::Tensor small = at::arange(20, at::kFloat), large = at::arange(30, at::kFloat);
  const auto first = pool.keep(small), second = pool.keep(large);
  EXPECT_EQ(pool.bytes(), 80);
  EXPECT_TRUE(second().is_same(large));
  EXPECT_FALSE(first().is_same(small));
}

TEST(ActivationPool, ForgetsWhatNobodyAsksFor) {
  ActivationPool pool(1000);
  (void)pool.keep(at::full({10}, 1.0, at::kFloat));
  const auto kept = pool.keep(at::full({10}, 2.0, at::kFloat));
  EXPECT_EQ(pool.bytes(), 40);
  EXPECT_TRUE(at::equal(kept(), at::full({10}, 2.0, at::kFloat)));
  EXPECT_EQ(pool.bytes(), 40) << "the buffer is free now";
}

/// A segment whose input was away runs as one whose input stayed.
TEST(ActivationPool, ServesCheckpoints) {
  ActivationPool pool(1 << 20);
  const auto triple = [](Tape& tape, const Variable& input) {
    Variable output = tape.variable(at::mul(input.value, input.value));
    tape.record([value = input.value, slot = input.gradient, out = output.gradient] { slot->add_owned(at::mul(out->take(), 2.0 * value)); });
    return output;
  };
  Tape tape;
  const Variable input = tape.variable(at::arange(6, at::kFloat));
  const Variable once = checkpoint(tape, input, triple, pool), twice = checkpoint(tape, once, triple, pool);
  twice.gradient->add_owned(at::full({6}, 1.0, at::kFloat));
  tape.backward();
  EXPECT_TRUE(at::equal(input.gradient->take(), 4.0 * at::arange(6, at::kFloat).pow(3)));
}

}  // namespace
}  // namespace tessera::ops
