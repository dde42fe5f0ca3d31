#include "tessera/ops/activation.h"

#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include <numbers>

#include "ops/trial.h"
#include "tessera/ops/linear.h"

namespace tessera::ops::test {
namespace {

at::Tensor formula(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return x / (1.0 + (-x).exp());
    case Activation::GeluTanh:
      return 0.5 * x * (1.0 + (std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)).tanh());
    case Activation::GeluErf:
      return 0.5 * x * (1.0 + (x / std::numbers::sqrt2).erf());
    case Activation::Relu:
      return x.clamp_min(0.0);
  }
  return {};
}

constexpr Activation kAll[] = {Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Relu};

class Activations : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Activations, every_precision(), precision_name);

TEST_P(Activations, Gated) {
  for (const Activation activation : kAll) {
    for (const auto& [rows, width] : {std::pair{1, 1}, std::pair{1, 33}, std::pair{17, 19}}) {
      SCOPED_TRACE(static_cast<int>(activation));
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("gate and up", {rows, 2 * width}, 2.0);
      trial.expect(gated_activation(trial.tape(), x.variable, activation),
                   formula(x.twin.narrow(1, 0, width), activation) * x.twin.narrow(1, width, width));
    }
  }
}

TEST_P(Activations, Plain) {
  for (const Activation activation : kAll) {
    for (const auto& [rows, width] : {std::pair{1, 33}, std::pair{17, 19}}) {
      SCOPED_TRACE(static_cast<int>(activation));
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("input", {rows, width}, 2.0);
      trial.expect(plain_activation(trial.tape(), x.variable, activation), formula(x.twin, activation));
    }
  }
}

// Far out the functions are 0 or the identity, never not a number.
TEST_P(Activations, StayFiniteForLargeInputs) {
  for (const Activation activation : kAll) {
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {2, 40}, 60.0);
    trial.expect(plain_activation(trial.tape(), x.variable, activation), formula(x.twin, activation));
  }
}

TEST_P(Activations, AreRebuiltForTheLinearThatFollows) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("gate and up", {11, 32});
  Trial::Leaf& w = trial.weight("down", {5, 16});
  const Variable active = gated_activation(trial.tape(), x.variable, Activation::Silu);
  ASSERT_TRUE(active.rebuild);
  EXPECT_TRUE(bitwise_equal(active.save().get(), active.value));
  const at::Tensor expected = formula(x.twin.narrow(1, 0, 16), Activation::Silu) * x.twin.narrow(1, 16, 16);
  trial.expect(linear(trial.tape(), active, w.parameter), at::matmul(expected, w.twin.t()));
}

}  // namespace
}  // namespace tessera::ops::test
