#include "tessera/ops/residual.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/trial.h"
#include "tessera/ops/cpu/dropout.h"

namespace tessera::ops::test {
namespace {

class Residual : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Residual, every_precision(), precision_name);

TEST_P(Residual, AddsTheBranchTimesItsMultiplier) {
  for (const double multiplier : {1.0, 0.22}) {
    for (const std::int64_t rows : {1, 9}) {
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("residual", {rows, 21});
      Trial::Leaf& b = trial.activation("branch", {rows, 21});
      trial.expect(residual_add(trial.tape(), x.variable, b.variable, multiplier, {}), x.twin + b.twin * multiplier);
    }
  }
}

TEST_P(Residual, ABranchMayBeItsOwnResidual) {
  // x + f(x) with f the identity on a copy: both gradients meet in one slot.
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("residual", {4, 8});
  const Variable twice = add(trial.tape(), x.variable, x.variable);
  trial.expect(residual_add(trial.tape(), x.variable, twice, 1.0, {}), x.twin * 3.0);
}

TEST_P(Residual, AddsTwoEmbeddings) {
  Trial trial(GetParam());
  Trial::Leaf& a = trial.activation("a", {5, 21});
  Trial::Leaf& b = trial.activation("b", {5, 21});
  trial.expect(add(trial.tape(), a.variable, b.variable), a.twin + b.twin);
}

/// `length` tokens of each sample.
std::shared_ptr<const std::vector<TokenNumber>> tokens_of(const std::vector<std::int64_t>& samples, std::int64_t length) {
  std::vector<TokenNumber> tokens;
  for (const std::int64_t sample : samples)
    for (std::int64_t position = 0; position < length; ++position) tokens.push_back({sample, position});
  return std::make_shared<const std::vector<TokenNumber>>(std::move(tokens));
}

/// The mask of `options` for [tokens, width] as cpu/dropout.h defines it: 0, or 1 / (1 − p).
at::Tensor mask(const Dropout& options, std::int64_t width) {
  const std::int64_t tokens = std::ssize(*options.tokens);
  at::Tensor result = at::zeros({tokens, width}, at::kDouble);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const TokenNumber& number = (*options.tokens)[static_cast<std::size_t>(token)];
    const std::uint64_t row =
        cpu::dropout_row_key(options.key, static_cast<std::uint64_t>(number.sample), 0, static_cast<std::uint64_t>(number.position));
    for (std::int64_t element = 0; element < width; ++element) {
      const bool kept =
          cpu::dropout_word(row, static_cast<std::uint32_t>(element)) >= cpu::dropout_threshold(static_cast<float>(options.probability));
      if (kept) result.data_ptr<double>()[token * width + element] = 1.0 / (1.0 - options.probability);
    }
  }
  return result;
}

class Drop : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Drop, testing::Values(kSingle, Precision{at::kFloat, 1e-5, true}, kDouble, kHalf), precision_name);

const Dropout kDropout{.probability = 0.3, .key = 77, .tokens = tokens_of({12, 5}, 5)};

TEST_P(Drop, MultipliesByTheMaskInBothDirections) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {10, 33});
  trial.expect(dropout(trial.tape(), x.variable, kDropout), x.twin * mask(kDropout, 33));
}

TEST_P(Drop, InsideTheResidual) {
  for (const double multiplier : {1.0, 0.22}) {
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("residual", {10, 33});
    Trial::Leaf& b = trial.activation("branch", {10, 33});
    trial.expect(residual_add(trial.tape(), x.variable, b.variable, multiplier, kDropout), x.twin + b.twin * mask(kDropout, 33) * multiplier);
  }
}

TEST(Dropout, KeepsTheMeanAndTheShare) {
  Tape tape;
  const Variable output =
      dropout(tape, tape.variable(at::ones({400, 500}, at::kFloat)), {.probability = 0.1, .key = 3, .tokens = tokens_of({1, 2}, 200)});
  const double count = 200'000.0;
  const double dropped = output.value.eq(0.0).sum().item<double>() / count;
  EXPECT_NEAR(dropped, 0.1, 5.0 * std::sqrt(0.09 / count));
  EXPECT_NEAR(output.value.mean().item<double>(), 1.0, 5.0 * std::sqrt(0.1 / 0.9 / count));
}

TEST(Dropout, FollowsTheSampleNotTheRow) {
  const at::Tensor ones = at::ones({12, 40}, at::kFloat);
  const auto masks = [&](const std::vector<std::int64_t>& samples, std::uint64_t key) {
    Tape tape;
    return dropout(tape, tape.variable(ones), {.probability = 0.5, .key = key, .tokens = tokens_of(samples, 4)}).value;
  };
  const at::Tensor first = masks({7, 9, 11}, 1), moved = masks({11, 7, 9}, 1), other_key = masks({7, 9, 11}, 2);
  EXPECT_TRUE(bitwise_equal(first.narrow(0, 0, 8), moved.narrow(0, 4, 8)));
  EXPECT_TRUE(bitwise_equal(first.narrow(0, 8, 4), moved.narrow(0, 0, 4)));
  EXPECT_FALSE(bitwise_equal(first, other_key));
  EXPECT_FALSE(bitwise_equal(first.narrow(0, 0, 4), first.narrow(0, 4, 4)));
}

TEST(Dropout, HappensOnlyInTraining) {
  const at::Tensor ones = at::ones({2, 40}, at::kFloat);
  const Dropout half{.probability = 0.5, .key = 1, .tokens = tokens_of({0}, 2)};
  Tape inference(Tape::Mode::Inference), forward(Tape::Mode::Forward), record;
  EXPECT_TRUE(bitwise_equal(dropout(inference, {ones, nullptr, nullptr}, half).value, ones));
  EXPECT_TRUE(bitwise_equal(dropout(forward, {ones, nullptr, nullptr}, half).value, dropout(record, record.variable(ones), half).value));
  EXPECT_EQ(forward.size(), 0U);
}

}  // namespace
}  // namespace tessera::ops::test
