#include "tessera/ops/grouped_linear.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/trial.h"
#include "tessera/ops/linear.h"

namespace tessera::ops::test {
namespace {

using Rows = std::vector<std::int64_t>;

class GroupedLinear : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, GroupedLinear, every_precision(), precision_name);

std::int64_t total(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

/// Each expert's linear formula over its rows, one after the other.
at::Tensor per_expert(const at::Tensor& input_NI, const at::Tensor& weight_EOI, const at::Tensor& bias_EO, const Rows& rows) {
  std::vector<at::Tensor> outputs;
  std::int64_t first = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    const at::Tensor product = at::matmul(input_NI.narrow(0, first, rows[e]), weight_EOI.select(0, expert).t());
    outputs.push_back(bias_EO.defined() ? product + bias_EO.select(0, expert) : product);
    first += rows[e];
  }
  return at::cat(outputs);
}

// Experts without rows at either end and in the middle, one row, few, tens, and more than a block of the widened bf16 product.
TEST_P(GroupedLinear, EqualsOneLinearPerExpert) {
  for (const Rows& rows : {Rows{5}, Rows{4, 4, 4, 4}, Rows{0, 1, 0, 9, 33, 0}, Rows{0, 0, 70}, Rows{65, 16, 0, 40, 17, 60}, Rows{1030, 3}}) {
    SCOPED_TRACE(testing::PrintToString(rows));
    const auto experts = static_cast<std::int64_t>(rows.size());
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {total(rows), 13});
    Trial::Leaf& w = trial.weight("weight", {experts, 7, 13});
    Trial::Leaf& b = trial.weight("bias", {experts, 7});
    trial.expect(grouped_linear(trial.tape(), x.variable, w.parameter, &b.parameter, rows), per_expert(x.twin, w.twin, b.twin, rows));
  }
}

// The parameter as a matrix of all the experts' rows, as buffers that are cut between rows hold it.
TEST_P(GroupedLinear, TakesTheExpertsAsOneMatrixWithoutBias) {
  const Rows rows{6, 0, 11};
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {17, 13});
  Trial::Leaf& w = trial.weight("weight", {21, 13});
  trial.expect(grouped_linear(trial.tape(), x.variable, w.parameter, nullptr, rows), per_expert(x.twin, w.twin.view({3, 7, 13}), at::Tensor(), rows));
}

TEST_P(GroupedLinear, NoRowsAtAllGiveGradientsOfZero) {
  Parameter weight = make_parameter(random_tensor({3, 7, 13}, 1, GetParam().type)), bias = make_parameter(random_tensor({3, 7}, 2, GetParam().type));
  Tape tape;
  const Variable input = tape.variable(random_tensor({0, 13}, 3, GetParam().type));
  const Variable output = grouped_linear(tape, input, weight, &bias, {0, 0, 0});
  EXPECT_EQ(output.value.sizes(), at::IntArrayRef({0, 7}));
  output.gradient->add_owned(output.value);
  tape.backward();
  EXPECT_EQ(weight.gradient.abs().max().item<double>(), 0.0);
  EXPECT_EQ(bias.gradient.abs().max().item<double>(), 0.0);
  EXPECT_EQ(input.gradient->value().sizes(), at::IntArrayRef({0, 13}));
}

/// Runs one microbatch forward and backward.
void microbatch(const at::Tensor& input, const at::Tensor& gradient, Parameter& weight, Parameter& bias, const Rows& rows) {
  Tape tape;
  const Variable output = grouped_linear(tape, tape.variable(input), weight, &bias, rows);
  output.gradient->add_shared(gradient);
  tape.backward();
}

TEST_P(GroupedLinear, MicrobatchesOfTensOfRowsAddUp) {
  const at::Tensor input = random_tensor({80, 70}, 1, GetParam().type), gradient = random_tensor({80, 50}, 2, GetParam().type);
  const at::Tensor values = random_tensor({4, 50, 70}, 3, GetParam().type);
  Parameter weight = make_parameter(values), bias = make_parameter(values.select(2, 0).contiguous());
  for (int times = 0; times < 2; ++times) microbatch(input, gradient, weight, bias, {20, 20, 20, 20});
  const at::Tensor x = input.to(at::kDouble).view({4, 20, 70}), g = gradient.to(at::kDouble).view({4, 20, 50});
  EXPECT_LE(relative_error(weight.gradient, 2.0 * at::matmul(g.transpose(1, 2), x)), GetParam().tolerance);
}

// Whether or not an expert had rows in the first microbatch, the second one adds to what is there.
TEST_P(GroupedLinear, MicrobatchesAddUp) {
  const at::Tensor input = random_tensor({12, 13}, 1, GetParam().type), gradient = random_tensor({12, 7}, 2, GetParam().type);
  const at::Tensor values = random_tensor({3, 7, 13}, 3, GetParam().type);
  Parameter weight = make_parameter(values), bias = make_parameter(values.select(2, 0).contiguous());
  microbatch(input, gradient, weight, bias, {0, 5, 7});
  microbatch(input, gradient, weight, bias, {12, 0, 0});
  const at::Tensor x = input.to(at::kDouble), g = gradient.to(at::kDouble);
  const at::Tensor expected =
      at::stack({at::matmul(g.t(), x), at::matmul(g.narrow(0, 0, 5).t(), x.narrow(0, 0, 5)), at::matmul(g.narrow(0, 5, 7).t(), x.narrow(0, 5, 7))});
  EXPECT_LE(relative_error(weight.gradient, expected), GetParam().tolerance);
  EXPECT_LE(relative_error(bias.gradient, at::stack({g.sum(0), g.narrow(0, 0, 5).sum(0), g.narrow(0, 5, 7).sum(0)})), GetParam().tolerance);
}

TEST_P(GroupedLinear, DeferredWeightGradientsAreTheSameBits) {
  const at::Tensor input = random_tensor({31, 13}, 1, GetParam().type), gradient = random_tensor({31, 7}, 2, GetParam().type);
  const at::Tensor values = random_tensor({3, 7, 13}, 3, GetParam().type);
  Parameter now = make_parameter(values), now_bias = make_parameter(values.select(2, 0).contiguous());
  Parameter later = make_parameter(values), later_bias = make_parameter(now_bias.weight);
  WeightGradientQueue queue;
  later.queue = later_bias.queue = &queue;
  for (const Rows& rows : {Rows{31, 0, 0}, Rows{9, 0, 22}}) {
    microbatch(input, gradient, now, now_bias, rows);
    microbatch(input, gradient, later, later_bias, rows);
  }
  EXPECT_FALSE(later.gradient_written) << "nothing is computed before the queue is drained";
  queue.drain();
  EXPECT_TRUE(bitwise_equal(later.gradient, now.gradient));
  EXPECT_TRUE(bitwise_equal(later_bias.gradient, now_bias.gradient));
}

TEST_P(GroupedLinear, FrozenExpertsPassTheGradientOn) {
  const Rows rows{3, 9};
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {12, 13});
  Trial::Leaf& w = trial.weight("weight", {2, 7, 13}, 1.0, 0.0, false);
  trial.expect(grouped_linear(trial.tape(), x.variable, w.parameter, nullptr, rows), per_expert(x.twin, w.twin, at::Tensor(), rows));
  EXPECT_FALSE(w.parameter.gradient.defined());
}

// Whether threads share a product or each computes those of some experts, there is one product for each.
TEST_P(GroupedLinear, AnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const Rows& rows : {Rows{8, 9, 0, 7, 8, 10, 8}, Rows{1, 60, 2, 0, 3}, Rows{0, 0, 0, 5, 5, 5}}) {
      SCOPED_TRACE(testing::PrintToString(rows));
      const auto experts = static_cast<std::int64_t>(rows.size());
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("input", {total(rows), 13});
      Trial::Leaf& w = trial.weight("weight", {experts, 7, 13});
      trial.expect(grouped_linear(trial.tape(), x.variable, w.parameter, nullptr, rows), per_expert(x.twin, w.twin, at::Tensor(), rows));
    }
  }
  at::set_num_threads(before);
}

TEST_P(GroupedLinear, OneExpertIsOrdinaryLinear) {
  const at::Tensor input = random_tensor({40, 13}, 1, GetParam().type);
  Parameter weight = make_parameter(random_tensor({7, 13}, 2, GetParam().type));
  Tape tape(Tape::Mode::Inference);
  const at::Tensor expected = linear(tape, tape.variable(input), weight).value;
  EXPECT_LE(relative_error(grouped_linear(tape, tape.variable(input), weight, nullptr, {40}).value, expected.to(at::kDouble)),
            GetParam().type == at::kBFloat16 ? 1.0 / 128.0 : GetParam().tolerance);
}

}  // namespace
}  // namespace tessera::ops::test
