// What each policy leaves on a rank between steps.
#include <fmt/format.h>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.numel() * tensor.element_size() : 0; }

/// Masters, compute weights, gradients and moments, each piece of memory once.
std::int64_t persistent_bytes(const model::ParameterStore& store, const optim::Optimizer& optimizer) {
  std::int64_t bytes = 0;
  for (const model::FlatBuffer& buffer : store.buffers()) {
    const bool whole_weights = buffer.compute.defined();
    bytes += bytes_of(whole_weights ? buffer.compute : buffer.compute_shard);
    if (!buffer.master.is_same(buffer.compute_shard)) bytes += bytes_of(buffer.master);
    bytes += bytes_of(buffer.gradient.defined() ? buffer.gradient : buffer.gradient_shard);
  }
  for (const optim::Moments& moments : optimizer.moments()) bytes += bytes_of(moments.first) + bytes_of(moments.second);
  return bytes;
}

data::Batch one_row(std::int64_t rank) {
  data::Batch batch{.rows = 1, .length = 16};
  for (std::int64_t position = 0; position < batch.length; ++position) {
    batch.input_ids.push_back((rank * 37 + position * 11) % 2000);
    batch.labels.push_back((rank * 13 + position * 7) % 2000);
    batch.position_ids.push_back(position);
  }
  batch.lengths = {batch.length};
  batch.numbers = {rank};
  return batch;
}

/// Bytes per parameter after a step, on this rank.
double bytes_per_parameter(const config::Distributed& strategy, DType dtype) {
  const model::ModelSpec spec = model::model_spec_from_json({{"model_type", "llama"},
                                                             {"hidden_size", 128},
                                                             {"intermediate_size", 352},
                                                             {"num_hidden_layers", 3},
                                                             {"num_attention_heads", 4},
                                                             {"num_key_value_heads", 2},
                                                             {"vocab_size", 2000},
                                                             {"max_position_embeddings", 64},
                                                             {"tie_word_embeddings", true}},
                                                            "test");
  const auto setup = parallel::DistributedSetup::build(tessera::test::backend(), strategy);
  parallel::CausalLM model = parallel::CausalLM::from_config(spec, 1, setup, {.dtype = dtype, .trainable = true});
  optim::Optimizer optimizer(*model.model.store, {});
  training_step(model, optimizer, std::vector{one_row(setup.rank())}, 0, {.learning_rate = 1e-3}, 1.0);
  return static_cast<double>(persistent_bytes(*model.model.store, optimizer)) / static_cast<double>(model.model.store->table().num_elements());
}

// fp32: master, gradient and two moments, 16 bytes; bf16: a compute copy on top.
TEST(Memory, WhatIsShardedIsDividedByTheRanks) {
  const auto ranks = static_cast<double>(tessera::test::backend().world_size());
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const double compute = dtype == DType::F32 ? 0.0 : 2.0, weights = dtype == DType::F32 ? 4.0 : 2.0;
    const double masters = dtype == DType::F32 ? 0.0 : 4.0;
    EXPECT_LE(bytes_per_parameter({.strategy = config::Strategy::Fsdp2}, dtype), 1.05 * (16.0 + compute) / ranks);
    config::Distributed zero{.strategy = config::Strategy::MegatronFsdp};
    const double expected[] = {16.0 + compute, weights + 4.0 + (8.0 + masters) / ranks, weights + (12.0 + masters) / ranks, (16.0 + compute) / ranks};
    for (std::int64_t stage = 0; stage <= 3; ++stage) {
      zero.megatron_fsdp.zero_dp_strategy = stage;
      EXPECT_NEAR(bytes_per_parameter(zero, dtype), expected[stage], 0.05 * expected[stage]) << "stage " << stage;
    }
    EXPECT_NEAR(bytes_per_parameter({.strategy = config::Strategy::Ddp}, dtype), 16.0 + compute, 0.01 * (16.0 + compute));
  }
}

}  // namespace
}  // namespace tessera::train
