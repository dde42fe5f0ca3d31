// offload_activations: inputs of blocks that run again wait in host memory, which is kept for the next step.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "support/allocation_counter.h"
#include "tessera/model/config.h"
#include "tessera/parallel/causal_lm.h"

namespace tessera::parallel {
namespace {

constexpr std::int64_t kLayers = 3, kHidden = 16, kTokens = 11;

/// Bytes that one pass leaves allocated beside weights and gradients.
std::int64_t bytes_left(bool offload) {
  const model::ModelSpec spec = model::model_spec_from_json({{"model_type", "llama"},
                                                             {"vocab_size", 32},
                                                             {"hidden_size", kHidden},
                                                             {"intermediate_size", 24},
                                                             {"num_hidden_layers", kLayers},
                                                             {"num_attention_heads", 2}},
                                                            "the test's model");
  const auto self = comm::self_backend();
  const auto setup =
      DistributedSetup::build(*self, {.activation_checkpointing = config::ActivationCheckpointing::Full, .offload_activations = offload});
  const CausalLM model = CausalLM::from_config(
      spec, 1, setup, {.dtype = DType::F32, .trainable = true, .decoder = {.activation_checkpointing = model::ActivationCheckpointing::Full}});
  model.model.decoder->set_unit_hooks(nullptr);
  model.model.store->start_gradients();
  const at::Tensor ids = at::arange(kTokens, at::kLong);
  const test::AllocationCounter counter;
  ops::Tape tape;
  const ops::Variable hidden = model.model.decoder->hidden(tape, {ids.view({1, -1}), ids.view({1, -1}), {kTokens}, {0}, {}}).states;
  model.model.decoder->loss(tape, hidden, ids, 0.1);
  tape.backward();
  return counter.current();
}

TEST(OffloadActivations, KeepsHostMemoryForTheInputOfEveryBlock) { EXPECT_EQ(bytes_left(true) - bytes_left(false), kLayers * kTokens * kHidden * 4); }

}  // namespace
}  // namespace tessera::parallel
