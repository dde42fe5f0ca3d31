#include "tessera/model/summary.h"

#include <gtest/gtest.h>

#include "model/goldens.h"
#include "support/support.h"
#include "tessera/model/activation_memory.h"
#include "tessera/model/config.h"

namespace tessera::model {
namespace {

TEST(Summary, FlopsOfALlamaByHand) {
  // 4 layers of qkv [256, 64], output [64, 128], gate_up [192, 64], down [64, 96]; head [320, 64]; 8 heads of 16.
  const double matrices = 4.0 * (256 * 64 + 64 * 128 + 192 * 64 + 64 * 96) + 320 * 64;
  EXPECT_DOUBLE_EQ(flops_per_token(test::golden_spec("qwen3"), 32), 6.0 * matrices + 12.0 * 4 * 128 * 16);
}

TEST(Summary, OfItsExpertsATokenCostsThoseItIsSentTo) {
  ModelSpec spec = test::golden_spec("mixtral");
  const double two_of_four = flops_per_token(spec, 32);
  spec.experts->experts_per_token = 3;
  // One expert more in each of 2 layers: gate_up [96, 32], down [32, 48].
  EXPECT_DOUBLE_EQ(flops_per_token(spec, 32) - two_of_four, 6.0 * 2 * (96 * 32 + 32 * 48));
}

TEST(Summary, ASlidingWindowSeesLess) {
  ModelSpec spec = test::golden_spec("qwen3");
  const double full = flops_per_token(spec, 64);
  for (LayerSpec& layer : spec.layers) layer.sliding_window = 16;
  // On average window − window² / (2 · length) positions instead of length / 2.
  EXPECT_DOUBLE_EQ(full - flops_per_token(spec, 64), 12.0 * 4 * 128 * (32.0 - (16.0 - 256.0 / 128.0)));
  for (LayerSpec& layer : spec.layers) layer.sliding_window = 64;
  EXPECT_DOUBLE_EQ(flops_per_token(spec, 64), full);
}

TEST(Summary, MemoryOfWeightsGradientsAndMoments) {
  const std::int64_t n = parameter_table(test::golden_spec("qwen3")).num_elements();
  MemoryRequest request;
  const MemoryEstimate fp32 = estimate_state(n, request);
  EXPECT_EQ(fp32.weights, 4 * n);
  EXPECT_EQ(fp32.gradients, 4 * n);
  EXPECT_EQ(fp32.optimizer, 8 * n);
  request.compute_dtype = DType::BF16;
  EXPECT_EQ(estimate_state(n, request).weights, 6 * n);
  request.trainable_elements = n / 2;
  EXPECT_EQ(estimate_state(n, request).optimizer, 8 * (n / 2));
  request.training = false;
  const MemoryEstimate inference = estimate_state(n, request);
  EXPECT_EQ(inference.weights, 2 * n);
  EXPECT_EQ(inference.gradients + inference.optimizer, 0);
}

/// 16 or 18 bytes an element over the shards.
TEST(Summary, ShardedStateIsDividedAmongRanks) {
  const std::int64_t elements = parameter_table(test::golden_spec("qwen3")).num_elements();
  const auto n = static_cast<double>(elements);
  const auto persistent = [&](DType dtype, const StateSharding& sharding) {
    const MemoryEstimate m = estimate_state(elements, {.compute_dtype = dtype, .sharding = sharding});
    return static_cast<double>(m.weights + m.gradients + m.optimizer);
  };
  EXPECT_NEAR(persistent(DType::F32, {.weights = 4, .gradients = 4, .optimizer = 4}), 16 * n / 4, 64);
  EXPECT_NEAR(persistent(DType::BF16, {.weights = 4, .gradients = 4, .optimizer = 4}), 18 * n / 4, 64);
  EXPECT_NEAR(persistent(DType::F32, {.optimizer = 4}), (4 + 4 + 8.0 / 4) * n, 64);
  EXPECT_NEAR(persistent(DType::BF16, {.gradients = 4, .optimizer = 4}), (2 + (4 + 4 + 8) / 4.0) * n, 64);
}

TEST(Summary, CheckpointingKeepsFewerActivations) {
  const ModelSpec spec = read_model_spec(test::test_data("goldens/gemma2"));
  MemoryRequest request{.num_rows = 4, .length = 512};
  const auto activations = [&](ActivationCheckpointing mode) {
    request.activation_checkpointing = mode;
    return activation_bytes(spec, request).most();
  };
  EXPECT_LT(activations(ActivationCheckpointing::Full), activations(ActivationCheckpointing::Selective));
  EXPECT_LE(activations(ActivationCheckpointing::Selective), activations(ActivationCheckpointing::None));
}

}  // namespace
}  // namespace tessera::model
