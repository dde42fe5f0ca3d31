#include "tessera/ops/linear.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/norm.h"

namespace tessera::ops::test {
namespace {

class Linear : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Linear, every_precision(), precision_name);

// Below, at and above the number of rows where the thin kernel ends.
TEST_P(Linear, EqualsTheFormulaAtEveryNumberOfRows) {
  for (const std::int64_t rows : {1, 3, 8, 9, 33}) {
    SCOPED_TRACE(rows);
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {rows, 37});
    Trial::Leaf& w = trial.weight("weight", {19, 37});
    trial.expect(linear(trial.tape(), x.variable, w.parameter), at::matmul(x.twin, w.twin.t()));
  }
}

TEST_P(Linear, AddsABias) {
  for (const std::int64_t rows : {1, 5, 21}) {
    SCOPED_TRACE(rows);
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {rows, 13});
    Trial::Leaf& w = trial.weight("weight", {7, 13});
    Trial::Leaf& b = trial.weight("bias", {7});
    trial.expect(linear(trial.tape(), x.variable, w.parameter, &b.parameter), at::matmul(x.twin, w.twin.t()) + b.twin);
  }
}

// More rows than one block of the widened bf16 product.
TEST_P(Linear, ManyRows) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {2051, 9});
  Trial::Leaf& w = trial.weight("weight", {11, 9});
  Trial::Leaf& b = trial.weight("bias", {11});
  trial.expect(linear(trial.tape(), x.variable, w.parameter, &b.parameter), at::matmul(x.twin, w.twin.t()) + b.twin);
}

TEST_P(Linear, AFrozenWeightGetsNothingAndTheRestEverything) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {12, 13});
  Trial::Leaf& w = trial.weight("weight", {7, 13}, 1.0, 0.0, false);
  Trial::Leaf& b = trial.weight("bias", {7});
  trial.expect(linear(trial.tape(), x.variable, w.parameter, &b.parameter), at::matmul(x.twin, w.twin.t()) + b.twin);
  EXPECT_FALSE(w.parameter.gradient.defined());
  EXPECT_FALSE(w.parameter.gradient_written);
}

TEST_P(Linear, AFrozenBiasGetsNothing) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {12, 13});
  Trial::Leaf& w = trial.weight("weight", {7, 13});
  Trial::Leaf& b = trial.weight("bias", {7}, 1.0, 0.0, false);
  trial.expect(linear(trial.tape(), x.variable, w.parameter, &b.parameter), at::matmul(x.twin, w.twin.t()) + b.twin);
  EXPECT_FALSE(b.parameter.gradient_written);
}

// A norm's output is not kept but computed again for the weight gradient.
TEST_P(Linear, TakesAnInputThatIsRebuilt) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {10, 16});
  Trial::Leaf& n = trial.weight("norm", {16}, 0.1, 1.0);
  Trial::Leaf& w = trial.weight("weight", {6, 16});
  const Variable normal = rms_norm(trial.tape(), x.variable, n.parameter, {});
  const at::Tensor expected = x.twin * (x.twin.square().mean({-1}, true) + 1e-6).rsqrt() * n.twin;
  trial.expect(linear(trial.tape(), normal, w.parameter), at::matmul(expected, w.twin.t()));
}

/// Runs one microbatch forward and backward.
void microbatch(const at::Tensor& input, const at::Tensor& gradient, Parameter& weight, Parameter& bias) {
  Tape tape;
  const Variable output = linear(tape, tape.variable(input), weight, &bias);
  output.gradient->add_shared(gradient);
  tape.backward();
}

TEST_P(Linear, TwoMicrobatchesEqualOne) {
  const at::Tensor input = random_tensor({31, 13}, 1, GetParam().type), gradient = random_tensor({31, 7}, 2, GetParam().type);
  const at::Tensor values = random_tensor({7, 13}, 3, GetParam().type);
  Parameter weight = make_parameter(values), bias = make_parameter(values.select(1, 0).contiguous());
  Parameter weight_of_one = make_parameter(values), bias_of_one = make_parameter(bias.weight);
  microbatch(input, gradient, weight_of_one, bias_of_one);
  for (const auto& [first, count] : {std::pair{0, 4}, std::pair{4, 27}})
    microbatch(input.narrow(0, first, count), gradient.narrow(0, first, count), weight, bias);
  // Bf16 matrix instructions round each microbatch's product to bf16 before it is added in fp32.
  const double tolerance = GetParam().type == at::kDouble ? 1e-13 : GetParam().type == at::kFloat ? 1e-6 : 1.0 / 128.0;
  EXPECT_LE(relative_error(weight.gradient, weight_of_one.gradient), tolerance);
  EXPECT_LE(relative_error(bias.gradient, bias_of_one.gradient), tolerance);
}

TEST_P(Linear, DeferredWeightGradientsAreTheSameBits) {
  const at::Tensor input = random_tensor({31, 13}, 1, GetParam().type), gradient = random_tensor({31, 7}, 2, GetParam().type);
  const at::Tensor values = random_tensor({7, 13}, 3, GetParam().type);
  Parameter now = make_parameter(values), now_bias = make_parameter(values.select(1, 0).contiguous());
  Parameter later = make_parameter(values), later_bias = make_parameter(now_bias.weight);
  WeightGradientQueue queue;
  later.queue = later_bias.queue = &queue;
  for (int step = 0; step < 2; ++step) {
    microbatch(input, gradient, now, now_bias);
    microbatch(input, gradient, later, later_bias);
  }
  EXPECT_FALSE(later.gradient_written) << "nothing is computed before the queue is drained";
  EXPECT_FALSE(queue.empty());
  queue.drain();
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(bitwise_equal(later.gradient, now.gradient));
  EXPECT_TRUE(bitwise_equal(later_bias.gradient, now_bias.gradient));
}

TEST_P(Linear, InferenceIsTheProductAlone) {
  const at::Tensor input = random_tensor({6, 40}, 1, GetParam().type), weight = random_tensor({10, 40}, 2, GetParam().type);
  EXPECT_LE(relative_error(linear_forward(input, weight), at::matmul(input.to(at::kDouble), weight.to(at::kDouble).t())), GetParam().tolerance);
}

TEST(LinearOnATapeWithoutRecord, KeepsNothing) {
  Tape tape(Tape::Mode::Inference);
  Parameter weight = make_parameter(random_tensor({7, 13}, 3, at::kFloat));
  const Variable output = linear(tape, {random_tensor({2, 13}, 1, at::kFloat), nullptr, nullptr}, weight);
  EXPECT_EQ(output.gradient, nullptr);
  EXPECT_EQ(tape.size(), 0U);
}

// fp32 input, bf16 weight: as if the weight were an fp32 one of the same values.
TEST(WidenedLinear, EqualsTheProductWithAnFp32Weight) {
  Parameter narrow = make_parameter(random_tensor({1300, 600}, 2, at::kBFloat16), false);
  narrow.widened = true;
  Parameter wide = make_parameter(narrow.weight.to(at::kFloat), false), bias = make_parameter(random_tensor({1300}, 3, at::kFloat), false);
  for (const std::int64_t rows : {1, 8, 9, 70}) {
    SCOPED_TRACE(rows);
    Tape tape(Tape::Mode::Inference);
    const Variable input = tape.variable(random_tensor({rows, 600}, 1, at::kFloat));
    for (Parameter* added : {&bias, static_cast<Parameter*>(nullptr)}) {
      const at::Tensor output = linear(tape, input, narrow, added).value;
      EXPECT_EQ(output.scalar_type(), at::kFloat);
      EXPECT_LE(relative_error(output, linear(tape, input, wide, added).value), 1e-6);
    }
    at::Tensor into = random_tensor({rows, 1300}, 4, at::kFloat);
    matmul_nt_out(into, input.value, narrow.weight);
    EXPECT_LE(relative_error(into, matmul_nt(input.value, wide.weight)), 1e-6);
    EXPECT_TRUE(bitwise_equal(matmul_nt(input.value, narrow.weight), into));
  }
}

}  // namespace
}  // namespace tessera::ops::test
