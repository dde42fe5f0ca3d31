#include "tessera/ops/tape.h"

#include <gtest/gtest.h>

#include "ops/trial.h"
#include "support/allocation_counter.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/norm.h"
#include "tessera/ops/residual.h"

namespace tessera::ops::test {
namespace {

TEST(GradientSlot, SumsWhatArrivesAndChangesOnlyWhatItOwns) {
  const at::Tensor mine = at::ones({3}), others = at::ones({3});
  GradientSlot slot;
  EXPECT_TRUE(slot.empty());
  slot.add_owned(mine);
  EXPECT_TRUE(slot.owned());
  slot.add_shared(others);
  EXPECT_TRUE(slot.value().is_same(mine)) << "added in place";
  EXPECT_TRUE(bitwise_equal(slot.take(), at::full({3}, 2.0F)));
  EXPECT_TRUE(bitwise_equal(others, at::ones({3})));
  EXPECT_TRUE(slot.empty());
}

TEST(GradientSlot, CopiesASharedGradientBeforeAdding) {
  const at::Tensor others = at::ones({3});
  GradientSlot slot;
  slot.add_shared(others);
  EXPECT_FALSE(slot.owned());
  slot.add_owned(at::ones({3}));
  EXPECT_TRUE(slot.owned());
  EXPECT_TRUE(bitwise_equal(slot.value(), at::full({3}, 2.0F)));
  EXPECT_TRUE(bitwise_equal(others, at::ones({3})));
}

TEST(GradientSlot, TakeOwnedCopiesWhatOthersRead) {
  const at::Tensor others = at::ones({3});
  GradientSlot slot;
  slot.add_shared(others);
  EXPECT_FALSE(slot.take_owned().is_same(others));
  slot.add_owned(others);
  EXPECT_TRUE(slot.take_owned().is_same(others));
  EXPECT_FALSE(slot.take_owned().defined());
}

TEST(GradientSlot, HandsOverWithItsOwnership) {
  for (const bool owned : {false, true}) {
    GradientSlot from, to;
    owned ? from.add_owned(at::ones({3})) : from.add_shared(at::ones({3}));
    from.hand_over(to);
    EXPECT_TRUE(from.empty());
    EXPECT_EQ(to.owned(), owned);
  }
}

TEST(Tape, RunsBackwardsAndForgetsAsItGoes) {
  Tape tape;
  std::string order;
  const auto held = std::make_shared<int>(0);
  for (const char name : {'a', 'b', 'c'}) tape.record([&order, name, held] { order += name + std::to_string(held.use_count()); });
  EXPECT_EQ(held.use_count(), 4);
  tape.backward();
  EXPECT_EQ(order, "c4b3a2");
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Tape, OthersThanRecordKeepNothing) {
  for (const Tape::Mode mode : {Tape::Mode::Inference, Tape::Mode::Forward}) {
    Tape tape(mode);
    tape.record([] { FAIL(); });
    EXPECT_EQ(tape.size(), 0U);
    EXPECT_EQ(tape.variable(at::ones({1})).gradient, nullptr);
    EXPECT_EQ(tape.training(), mode == Tape::Mode::Forward);
  }
}

/// A block: norm, linear, dropout, residual; norm, gate and up, activation, down, residual.
struct Block {
  at::ScalarType type;
  Parameter first_norm = make_parameter(random_tensor({16}, 1, type)), projection = make_parameter(random_tensor({16, 16}, 2, type));
  Parameter bias = make_parameter(random_tensor({16}, 6, type)), second_norm = make_parameter(random_tensor({16}, 3, type));
  Parameter gate_up = make_parameter(random_tensor({40, 16}, 4, type)), down = make_parameter(random_tensor({16, 20}, 5, type));

  std::vector<Parameter*> parameters() { return {&first_norm, &projection, &bias, &second_norm, &gate_up, &down}; }

  static std::shared_ptr<const std::vector<TokenNumber>> numbers_of(std::int64_t tokens) {
    std::vector<TokenNumber> numbers;
    for (std::int64_t token = 0; token < tokens; ++token) numbers.push_back({1 + token * 3 / tokens, token});
    return std::make_shared<const std::vector<TokenNumber>>(std::move(numbers));
  }

  Variable operator()(Tape& tape, const Variable& input, double dropout) {
    const Dropout drop = dropout > 0.0 ? Dropout{dropout, 5, numbers_of(input.value.size(0))} : Dropout{};
    const Variable branch = linear(tape, rms_norm(tape, input, first_norm, {}), projection, &bias);
    const Variable middle = residual_add(tape, input, branch, 1.0, drop);
    const Variable active = gated_activation(tape, linear(tape, rms_norm(tape, middle, second_norm, {}), gate_up), Activation::Silu);
    return residual_add(tape, middle, linear(tape, active, down), 0.5, drop);
  }
};

struct BlockRun {
  at::Tensor output, input_gradient;
  std::vector<at::Tensor> gradients;
  std::size_t tape_size = 0;
};

/// Two blocks with the same weights, so that gradients add up, plain or checkpointed.
BlockRun run_block(at::ScalarType type, double dropout, bool checkpointed, WeightGradientQueue* queue = nullptr) {
  Block block{type};
  for (Parameter* parameter : block.parameters()) parameter->queue = queue;
  Tape tape;
  const Variable input = tape.variable(random_tensor({9, 16}, 9, type));
  Variable x = input;
  for (int layer = 0; layer < 2; ++layer) {
    const auto segment = [&](Tape& inner, const Variable& entry) { return block(inner, entry, dropout); };
    x = checkpointed ? checkpoint(tape, x, segment) : segment(tape, x);
  }
  BlockRun run{x.value.clone(), {}, {}, tape.size()};
  x.gradient->add_owned(random_tensor({9, 16}, 10, type));
  tape.backward();
  if (queue != nullptr) queue->drain();
  run.input_gradient = input.gradient->value();
  for (Parameter* parameter : block.parameters()) run.gradients.push_back(parameter->gradient);
  return run;
}

void expect_same_bits(const BlockRun& a, const BlockRun& b) {
  EXPECT_TRUE(bitwise_equal(a.output, b.output));
  EXPECT_TRUE(bitwise_equal(a.input_gradient, b.input_gradient));
  for (std::size_t i = 0; i < a.gradients.size(); ++i) EXPECT_TRUE(bitwise_equal(a.gradients[i], b.gradients[i])) << "parameter " << i;
}

class Checkpoint : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Checkpoint, testing::Values(kSingle, kDouble, kHalf), precision_name);
class CheckpointWithDropout : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, CheckpointWithDropout, testing::Values(kSingle, kDouble, kHalf), precision_name);

TEST_P(Checkpoint, GivesTheSameBitsAndKeepsOneClosureASegment) {
  const BlockRun plain = run_block(GetParam().type, 0.0, false), again = run_block(GetParam().type, 0.0, true);
  expect_same_bits(plain, again);
  EXPECT_GT(plain.tape_size, 10U);
  EXPECT_EQ(again.tape_size, 2U);
}

TEST_P(CheckpointWithDropout, DropsTheSameElementsBothTimes) {
  const BlockRun plain = run_block(GetParam().type, 0.3, false);
  expect_same_bits(plain, run_block(GetParam().type, 0.3, true));
  EXPECT_FALSE(bitwise_equal(plain.output, run_block(GetParam().type, 0.0, false).output));
}

TEST_P(Checkpoint, WorksWithDeferredWeightGradients) {
  WeightGradientQueue queue;
  expect_same_bits(run_block(GetParam().type, 0.0, false), run_block(GetParam().type, 0.0, true, &queue));
}

// The operator after a segment need not keep its output: whoever asks first runs the segment again, and backward uses that run.
TEST(CheckpointOutput, IsNotKeptAndMadeOnce) {
  int runs = 0;
  Parameter weight = make_parameter(random_tensor({6, 6}, 4, at::kFloat));
  const auto segment = [&](Tape& inner, const Variable& entry) {
    ++runs;
    return gated_activation(inner, entry, Activation::Silu);
  };
  Tape tape;
  const Variable input = tape.variable(random_tensor({4, 12}, 1, at::kFloat));
  const tessera::test::AllocationCounter counter;
  const auto slot = [&] {
    const Variable middle = checkpoint(tape, input, segment);
    return linear(tape, middle, weight, nullptr).gradient;
  }();
  EXPECT_EQ(counter.current(), 0);
  slot->add_owned(random_tensor({4, 6}, 2, at::kFloat));
  tape.backward();
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(input.gradient->empty());
}

// A segment that changes its gradient in place must not change the one that the output's other readers still need.
TEST_P(Checkpoint, RespectsASharedGradient) {
  const auto run = [&](bool checkpointed) {
    Tape tape;
    const RopeTable table{at::full({4, 3}, 0.6, GetParam().type == at::kDouble ? at::kDouble : at::kFloat),
                          at::full({4, 3}, 0.8, GetParam().type == at::kDouble ? at::kDouble : at::kFloat)};
    const Variable input = tape.variable(random_tensor({4, 6}, 1, GetParam().type)), other = tape.variable(random_tensor({4, 6}, 2, GetParam().type));
    const auto segment = [&](Tape& inner, const Variable& entry) {
      return rotate_in_place(inner, {entry.value.clone(), entry.gradient, nullptr}, table, 1, 6);
    };
    const Variable turned = checkpointed ? checkpoint(tape, input, segment) : segment(tape, input);
    const Variable sum = add(tape, other, turned);
    sum.gradient->add_shared(at::ones({4, 6}, GetParam().type));
    tape.backward();
    return std::pair{input.gradient->value(), other.gradient->value()};
  };
  const auto [plain_input, plain_other] = run(false);
  const auto [again_input, again_other] = run(true);
  EXPECT_TRUE(bitwise_equal(plain_input, again_input));
  EXPECT_TRUE(bitwise_equal(plain_other, again_other));
  EXPECT_TRUE(again_other.eq(1.0).all().item<bool>());
}

TEST(CheckpointWithoutRecord, IsTheSegmentAlone) {
  Block block{at::kFloat};
  Tape inference(Tape::Mode::Inference), record;
  const at::Tensor input = random_tensor({9, 16}, 9, at::kFloat);
  const auto segment = [&](Tape& tape, const Variable& entry) { return block(tape, entry, 0.3); };
  const at::Tensor quiet = checkpoint(inference, {input, nullptr, nullptr}, segment).value;
  EXPECT_TRUE(bitwise_equal(quiet, block(inference, {input, nullptr, nullptr}, 0.0).value)) << "no dropout in inference";
  EXPECT_EQ(inference.size(), 0U);
}

}  // namespace
}  // namespace tessera::ops::test
