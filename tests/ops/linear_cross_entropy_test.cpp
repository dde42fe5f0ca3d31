#include "tessera/ops/linear_cross_entropy.h"

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/embedding.h"

namespace tessera::ops::test {
namespace {

at::Tensor shaped(const at::Tensor& hidden, const at::Tensor& weight, const LogitsOptions& options) {
  const at::Tensor logits = at::matmul(hidden, weight.t()) / options.divisor;
  return options.soft_cap ? (logits / *options.soft_cap).tanh() * *options.soft_cap : logits;
}

/// Sum over the labels that are not −100 of logsumexp(logits) − logits[label].
at::Tensor formula(const at::Tensor& hidden, const at::Tensor& weight, const LogitsOptions& options, const at::Tensor& labels) {
  const at::Tensor rows = labels.ne(-100).nonzero().squeeze(1);
  const at::Tensor logits = shaped(hidden.index_select(0, rows), weight, options);
  return (logits.logsumexp({1}) - logits.gather(1, labels.index_select(0, rows).unsqueeze(1)).squeeze(1)).sum();
}

/// Labels below `vocabulary`, of which every `ignored_every`-th is −100 (0: none).
at::Tensor make_labels(std::int64_t rows, std::int64_t vocabulary, std::int64_t ignored_every) {
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) labels.push_back(ignored_every > 0 && row % ignored_every == 0 ? -100 : (row * 7919) % vocabulary);
  return index_tensor(labels);
}

void expect_loss(const Precision& precision, std::int64_t rows, std::int64_t width, std::int64_t vocabulary, const at::Tensor& labels,
                 const LogitsOptions& options = {}, bool trainable = true) {
  constexpr double kScale = 0.37;
  Trial trial(precision);
  Trial::Leaf& hidden = trial.activation("hidden", {rows, width});
  Trial::Leaf& weight = trial.weight("weight", {vocabulary, width}, 0.5, 0.0, trainable);
  const LossSum loss = linear_cross_entropy(trial.tape(), hidden.variable, weight.parameter, options, labels, kScale);
  const at::Tensor expected = formula(hidden.twin, weight.twin, options, labels);
  EXPECT_EQ(loss.num_labels, labels.ne(-100).sum().item<std::int64_t>());
  EXPECT_NEAR(loss.sum, expected.item<double>(), precision.tolerance * std::max(1.0, std::abs(expected.item<double>())));
  (expected * kScale).backward();
  trial.tape().backward();
  trial.expect_gradients();
}

class LinearCrossEntropy : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, LinearCrossEntropy, testing::Values(kSingle, kDouble, kHalf), precision_name);

TEST_P(LinearCrossEntropy, OddSizesAndOneRow) {
  for (const auto& [rows, width, vocabulary] : {std::array{1, 5, 3}, std::array{1, 16, 101}, std::array{23, 7, 55}})
    expect_loss(GetParam(), rows, width, vocabulary, make_labels(rows, vocabulary, 0));
}
TEST_P(LinearCrossEntropy, IgnoredLabels) { expect_loss(GetParam(), 23, 9, 40, make_labels(23, 40, 3)); }
TEST_P(LinearCrossEntropy, Divisor) { expect_loss(GetParam(), 12, 9, 40, make_labels(12, 40, 5), {.divisor = 4.0}); }
TEST_P(LinearCrossEntropy, SoftCap) { expect_loss(GetParam(), 12, 9, 40, make_labels(12, 40, 5), {.divisor = 0.5, .soft_cap = 3.0}); }
TEST_P(LinearCrossEntropy, FrozenHead) { expect_loss(GetParam(), 12, 9, 40, make_labels(12, 40, 5), {}, false); }

// 64 MiB of fp32 logits are one chunk: these rows take two, of 159 and 158 labels.
TEST_P(LinearCrossEntropy, SeveralChunksWithUnevenLabels) { expect_loss(GetParam(), 634, 5, 60'001, make_labels(634, 60'001, 2)); }

TEST_P(LinearCrossEntropy, NothingToLearn) {
  Tape tape;
  const Variable hidden = tape.variable(random_tensor({6, 5}, 1, GetParam().type));
  Parameter weight = make_parameter(random_tensor({9, 5}, 2, GetParam().type));
  const LossSum loss = linear_cross_entropy(tape, hidden, weight, {}, at::full({6}, -100, at::kLong), 1.0);
  EXPECT_EQ(loss.sum, 0.0);
  EXPECT_EQ(loss.num_labels, 0);
  tape.backward();
  EXPECT_TRUE(hidden.gradient->value().eq(0.0).all().item<bool>());
  EXPECT_FALSE(weight.gradient_written) << "finish_gradients zeroes what nobody wrote";
}

TEST_P(LinearCrossEntropy, OverflowingLogitsStayFinite) {
  // Logits of several hundred: their exponentials overflow fp32.
  Trial trial(GetParam());
  Trial::Leaf& hidden = trial.activation("hidden", {6, 8}, 30.0);
  Trial::Leaf& weight = trial.weight("weight", {11, 8}, 10.0);
  const at::Tensor labels = make_labels(6, 11, 0);
  const LossSum loss = linear_cross_entropy(trial.tape(), hidden.variable, weight.parameter, {}, labels, 1.0);
  const double expected = formula(hidden.twin, weight.twin, {}, labels).item<double>();
  EXPECT_NEAR(loss.sum, expected, GetParam().tolerance * expected);
}

TEST_P(LinearCrossEntropy, TiedWithTheEmbedding) {
  Trial trial(GetParam());
  Trial::Leaf& weight = trial.weight("embedding and head", {19, 8});
  const at::Tensor ids = index_tensor({3, 18, 3, 0, 7}), labels = index_tensor({18, 3, -100, 7, 3});
  const Variable hidden = embedding(trial.tape(), ids, weight.parameter, 0.3);
  linear_cross_entropy(trial.tape(), hidden, weight.parameter, {}, labels, 0.25);
  (formula(weight.twin.index_select(0, ids) * 0.3, weight.twin, {}, labels) * 0.25).backward();
  trial.tape().backward();
  trial.expect_gradients();
}

TEST_P(LinearCrossEntropy, TwoMicrobatchesEqualOne) {
  const at::Tensor hidden = random_tensor({20, 8}, 1, GetParam().type), labels = make_labels(20, 33, 4);
  Parameter parts = make_parameter(random_tensor({33, 8}, 2, GetParam().type)), whole = make_parameter(parts.weight);
  const auto run = [&](Parameter& weight, std::int64_t first, std::int64_t count) {
    Tape tape;
    const LossSum loss = linear_cross_entropy(tape, tape.variable(hidden.narrow(0, first, count)), weight, {}, labels.narrow(0, first, count), 0.1);
    tape.backward();
    return loss;
  };
  const LossSum all = run(whole, 0, 20), first = run(parts, 0, 3), second = run(parts, 3, 17);
  EXPECT_EQ(all.num_labels, first.num_labels + second.num_labels);
  EXPECT_NEAR(all.sum, first.sum + second.sum, 1e-6 * all.sum);
  const double tolerance = GetParam().type == at::kDouble ? 1e-13 : GetParam().type == at::kFloat ? 2e-6 : 1.0 / 128.0;
  EXPECT_LE(relative_error(parts.gradient, whole.gradient), tolerance);
}

TEST_P(LinearCrossEntropy, EvaluationGivesTheSameSum) {
  const at::Tensor hidden = random_tensor({20, 8}, 1, GetParam().type), labels = make_labels(20, 33, 4);
  Parameter weight = make_parameter(random_tensor({33, 8}, 2, GetParam().type));
  Tape record, inference(Tape::Mode::Inference);
  const double training = linear_cross_entropy(record, record.variable(hidden), weight, {.soft_cap = 5.0}, labels, 1.0).sum;
  EXPECT_EQ(linear_cross_entropy(inference, {hidden, nullptr, nullptr}, weight, {.soft_cap = 5.0}, labels, 1.0).sum, training);
  EXPECT_EQ(inference.size(), 0U);
}

/// Hidden states are widened, nothing else is rounded but their gradient.
TEST(LinearCrossEntropyOfTwoPrecisions, FollowsTheWeight) {
  const at::Tensor hidden = random_tensor({20, 8}, 1, at::kBFloat16), labels = make_labels(20, 33, 4);
  Parameter mixed = make_parameter(random_tensor({33, 8}, 2, at::kFloat)), single = make_parameter(mixed.weight);
  Tape mixed_tape, single_tape;
  const Variable narrow = mixed_tape.variable(hidden), wide = single_tape.variable(hidden.to(at::kFloat));
  EXPECT_EQ(linear_cross_entropy(mixed_tape, narrow, mixed, {}, labels, 0.5).sum,
            linear_cross_entropy(single_tape, wide, single, {}, labels, 0.5).sum);
  mixed_tape.backward();
  single_tape.backward();
  EXPECT_TRUE(bitwise_equal(mixed.gradient, single.gradient));
  EXPECT_TRUE(bitwise_equal(narrow.gradient->value(), wide.gradient->value().to(at::kBFloat16)));
  EXPECT_TRUE(bitwise_equal(logits(hidden, mixed, {}), logits(hidden.to(at::kFloat), single, {})));
}

TEST_P(LinearCrossEntropy, TheLogitsThemselves) {
  const LogitsOptions options{.divisor = 3.0, .soft_cap = 2.0};
  Parameter weight = make_parameter(random_tensor({33, 8}, 2, GetParam().type));
  for (const std::int64_t rows : {1, 20}) {
    const at::Tensor hidden = random_tensor({rows, 8}, 1, GetParam().type);
    const at::Tensor result = logits(hidden, weight, options);
    EXPECT_EQ(result.scalar_type(), GetParam().type == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_LE(relative_error(result, shaped(hidden.to(at::kDouble), weight.weight.to(at::kDouble), options)), GetParam().tolerance);
  }
}

}  // namespace
}  // namespace tessera::ops::test
