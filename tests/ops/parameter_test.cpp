#include "tessera/ops/parameter.h"

#include <gtest/gtest.h>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

TEST(WeightGradientQueue, RunsInOrderAndFreesWhatItHeld) {
  WeightGradientQueue queue;
  std::string order;
  const auto held = std::make_shared<int>(0);
  for (const char name : {'a', 'b'}) queue.push([&order, name, held] { order += name + std::to_string(held.use_count()); });
  EXPECT_FALSE(queue.empty());
  queue.drain();
  EXPECT_EQ(order, "a3b2") << "each closure is freed before the next runs";
  EXPECT_TRUE(queue.empty());
  queue.drain();
  EXPECT_EQ(order, "a3b2");
}

TEST(DeliverWeightGradient, NowLaterOrNever) {
  Parameter plain = make_parameter(at::ones({2})), deferred = make_parameter(at::ones({2})), frozen = make_parameter(at::ones({2}), false);
  WeightGradientQueue queue;
  deferred.queue = frozen.queue = &queue;
  int runs = 0;
  deliver_weight_gradient(plain, [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  deliver_weight_gradient(deferred, [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  deliver_weight_gradient(frozen, [&] { FAIL(); });
  queue.drain();
  EXPECT_EQ(runs, 2);
}

TEST(AccumulateGradient, OverwritesFirstAndThenAdds) {
  Parameter parameter = make_parameter(at::ones({2}, at::kBFloat16));
  EXPECT_EQ(parameter.gradient.scalar_type(), at::kFloat);
  accumulate_gradient(parameter, at::full({2}, 3.0, at::kBFloat16));
  EXPECT_TRUE(bitwise_equal(parameter.gradient, at::full({2}, 3.0F)));
  accumulate_gradient(parameter, at::full({2}, 0.5, at::kFloat));
  EXPECT_TRUE(bitwise_equal(parameter.gradient, at::full({2}, 3.5F)));
}

}  // namespace
}  // namespace tessera::ops::test
