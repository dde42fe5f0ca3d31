#include "tessera/ops/norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/residual.h"

namespace tessera::ops::test {
namespace {

at::Tensor rms_formula(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options) {
  return x / (x.square().mean({-1}, true) + options.epsilon).sqrt() * (weight + options.weight_offset);
}

at::Tensor layer_formula(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor centered = x - x.mean({-1}, true);
  return centered / (centered.square().mean({-1}, true) + epsilon).sqrt() * weight;
}

class Norm : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Norm, every_precision(), precision_name);

TEST_P(Norm, RmsAtOddSizes) {
  for (const auto& [rows, width] : {std::pair{1, 1}, std::pair{1, 37}, std::pair{3, 8}, std::pair{70, 129}}) {
    SCOPED_TRACE(width);
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {rows, width}, 1.0, 0.3);
    Trial::Leaf& w = trial.weight("weight", {width}, 0.2, 1.0);
    const RmsNormOptions options{.epsilon = 1e-2};
    trial.expect(rms_norm(trial.tape(), x.variable, w.parameter, options), rms_formula(x.twin, w.twin, options));
  }
}

TEST_P(Norm, RmsWithGemmasOffset) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {9, 24});
  Trial::Leaf& w = trial.weight("weight", {24}, 0.2);
  const RmsNormOptions options{.epsilon = 1e-6, .weight_offset = 1.0};
  trial.expect(rms_norm(trial.tape(), x.variable, w.parameter, options), rms_formula(x.twin, w.twin, options));
}

TEST_P(Norm, RmsWithAFrozenWeight) {
  Trial trial(GetParam());
  Trial::Leaf& x = trial.activation("input", {9, 24});
  Trial::Leaf& w = trial.weight("weight", {24}, 0.2, 1.0, false);
  trial.expect(rms_norm(trial.tape(), x.variable, w.parameter, {}), rms_formula(x.twin, w.twin, {}));
  EXPECT_FALSE(w.parameter.gradient_written);
}

TEST_P(Norm, LayerWithAndWithoutBias) {
  for (const bool biased : {false, true}) {
    for (const auto& [rows, width] : {std::pair{1, 5}, std::pair{66, 40}}) {
      Trial trial(GetParam());
      Trial::Leaf& x = trial.activation("input", {rows, width}, 1.0, 0.5);
      Trial::Leaf& w = trial.weight("weight", {width}, 0.2, 1.0);
      Trial::Leaf* b = biased ? &trial.weight("bias", {width}) : nullptr;
      const at::Tensor expected = layer_formula(x.twin, w.twin, 1e-3);
      trial.expect(layer_norm(trial.tape(), x.variable, w.parameter, biased ? &b->parameter : nullptr, 1e-3), biased ? expected + b->twin : expected);
    }
  }
}

TEST_P(Norm, LayerWithFrozenWeightOrBias) {
  for (const bool frozen_weight : {false, true}) {
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {6, 40});
    Trial::Leaf& w = trial.weight("weight", {40}, 0.2, 1.0, !frozen_weight);
    Trial::Leaf& b = trial.weight("bias", {40}, 1.0, 0.0, frozen_weight);
    trial.expect(layer_norm(trial.tape(), x.variable, w.parameter, &b.parameter, 1e-5), layer_formula(x.twin, w.twin, 1e-5) + b.twin);
  }
}

// The gradient past the norm and the one through it meet in one buffer.
TEST_P(Norm, JoinsTheResidualsGradient) {
  for (const bool rms : {true, false}) {
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {7, 24});
    Trial::Leaf& w = trial.weight("weight", {24}, 0.2, 1.0);
    const Variable normal =
        rms ? rms_norm(trial.tape(), x.variable, w.parameter, {}) : layer_norm(trial.tape(), x.variable, w.parameter, nullptr, 1e-6);
    const at::Tensor expected = rms ? rms_formula(x.twin, w.twin, {}) : layer_formula(x.twin, w.twin, 1e-6);
    trial.expect(residual_add(trial.tape(), x.variable, normal, 0.5, {}), x.twin + expected * 0.5);
  }
}

TEST_P(Norm, RebuildsItsOutputBitForBit) {
  Tape tape;
  Parameter weight = make_parameter(random_tensor({24}, 2, GetParam().type)), bias = make_parameter(weight.weight);
  const Variable input = tape.variable(random_tensor({5, 24}, 1, GetParam().type));
  for (const Variable& output : {rms_norm(tape, input, weight, {}), layer_norm(tape, input, weight, &bias, 1e-5)}) {
    ASSERT_TRUE(output.rebuild);
    EXPECT_TRUE(bitwise_equal(output.save().get(), output.value));
  }
}

TEST_P(Norm, AddsToTheWeightsGradientOfAnEarlierMicrobatch) {
  const at::Tensor input = random_tensor({30, 24}, 1, GetParam().type), gradient = random_tensor({30, 24}, 2, GetParam().type);
  Parameter parts = make_parameter(random_tensor({24}, 3, GetParam().type)), whole = make_parameter(parts.weight);
  const auto run = [&](Parameter& weight, std::int64_t first, std::int64_t count) {
    Tape tape;
    const Variable output = rms_norm(tape, tape.variable(input.narrow(0, first, count)), weight, {});
    output.gradient->add_shared(gradient.narrow(0, first, count));
    tape.backward();
  };
  run(whole, 0, 30);
  run(parts, 0, 11);
  run(parts, 11, 19);
  EXPECT_LE(relative_error(parts.gradient, whole.gradient), 1e-6);
}

/// Norm of heads [first, first + count) of a fused projection, each on its own or all as one vector.
at::Tensor normalised_heads(const at::Tensor& matrix, std::int64_t first, std::int64_t count, const at::Tensor& weight,
                            const QueryKeyNormOptions& options) {
  const at::Tensor part = matrix.narrow(1, first * options.head_dim, count * options.head_dim);
  if (!options.per_head) return rms_formula(part, weight, options.norm);
  return rms_formula(part.unflatten(1, {count, options.head_dim}), weight, options.norm).flatten(1);
}

class QueryKeyNorms : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, QueryKeyNorms, every_precision(), precision_name);

TEST_P(QueryKeyNorms, NormaliseQueriesAndKeysAndLeaveValues) {
  for (const bool per_head : {true, false}) {
    for (const std::int64_t rows : {1, 13}) {
      for (const bool frozen : {false, true}) {
        const QueryKeyNormOptions options{.num_heads = 4,
                                          .num_key_value_heads = 2,
                                          .head_dim = 6,
                                          .per_head = per_head,
                                          .norm = {.epsilon = 1e-3, .weight_offset = per_head ? 1.0 : 0.0}};
        Trial trial(GetParam());
        Trial::Leaf& x = trial.activation("projection", {rows, 48});
        Trial::Leaf& q = trial.weight("query norm", {per_head ? 6 : 24}, 0.2, 1.0, !frozen);
        Trial::Leaf& k = trial.weight("key norm", {per_head ? 6 : 12}, 0.2, 1.0);
        const at::Tensor expected =
            at::cat({normalised_heads(x.twin, 0, 4, q.twin, options), normalised_heads(x.twin, 4, 2, k.twin, options), x.twin.narrow(1, 36, 12)}, 1);
        trial.expect(query_key_norm(trial.tape(), x.variable, q.parameter, k.parameter, options), expected);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::ops::test
