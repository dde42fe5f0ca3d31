// What each policy leaves on a rank between steps, and what it takes during one.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "distributed/ranks.h"
#include "support/allocation_counter.h"
#include "support/support.h"
#include "tessera/mesh/mesh_sizes.h"
#include "tessera/model/config.h"
#include "tessera/parallel/pipeline_plan.h"
#include "tessera/train/memory_plan.h"
#include "tessera/train/objects.h"
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

model::ModelSpec small_spec(bool tied) {
  return model::model_spec_from_json({{"model_type", "llama"},
                                      {"hidden_size", 128},
                                      {"intermediate_size", 352},
                                      {"num_hidden_layers", 3},
                                      {"num_attention_heads", 4},
                                      {"num_key_value_heads", 2},
                                      {"vocab_size", 2000},
                                      {"max_position_embeddings", 64},
                                      {"tie_word_embeddings", tied}},
                                     "test");
}

struct Measured {
  std::int64_t persistent = 0;  ///< bytes after a step, on this rank
  std::int64_t peak = 0;        ///< the most during one
};

Measured measure(const model::ModelSpec& spec, const config::Distributed& strategy, DType dtype, std::int64_t num_microbatches = 1,
                 const model::ParameterPredicate& frozen = {}) {
  const auto setup = parallel::DistributedSetup::build(tessera::test::backend(), strategy);
  parallel::CausalLM model = parallel::CausalLM::from_config(spec, 1, setup, {.dtype = dtype, .trainable = true, .frozen = frozen}, num_microbatches);
  optim::Optimizer optimizer(*model.model.store, {});
  const std::vector<data::Batch> batches(static_cast<std::size_t>(num_microbatches), one_row(setup.rank()));
  training_step(model, optimizer, batches, 0, {.learning_rate = 1e-3}, 1.0);
  Measured measured{.persistent = persistent_bytes(*model.model.store, optimizer)};
  const tessera::test::AllocationCounter counter;
  training_step(model, optimizer, batches, 1, {.learning_rate = 1e-3}, 1.0);
  measured.peak = measured.persistent + counter.peak();
  return measured;
}

double bytes_per_parameter(const config::Distributed& strategy, DType dtype) {
  const model::ModelSpec spec = small_spec(true);
  return static_cast<double>(measure(spec, strategy, dtype).persistent) / static_cast<double>(model::parameter_table(spec).num_elements());
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

struct Case {
  std::string name;
  config::Distributed strategy;
  std::int64_t num_microbatches = 1;
};

std::vector<Case> cases(std::int64_t ranks) {
  std::vector<Case> list;
  const auto add = [&](std::string name, config::Strategy strategy, std::int64_t num_microbatches, const auto& change) {
    Case& added = list.emplace_back(std::move(name), config::Distributed{.strategy = strategy}, num_microbatches);
    change(added.strategy);
  };
  using config::Strategy, config::Distributed;
  add("ddp", Strategy::Ddp, 1, [](Distributed&) {});
  for (std::int64_t stage = 0; stage <= 3; ++stage)
    add(fmt::format("zero {}", stage), Strategy::MegatronFsdp, 1, [stage](Distributed& d) { d.megatron_fsdp.zero_dp_strategy = stage; });
  add("fsdp2", Strategy::Fsdp2, 1, [](Distributed&) {});
  add("fsdp2, deferred", Strategy::Fsdp2, 2, [](Distributed&) {});
  add("fsdp2, every microbatch", Strategy::Fsdp2, 2, [](Distributed& d) { d.fsdp2.defer_fsdp_grad_sync = false; });
  add("fsdp2, kept gathered", Strategy::Fsdp2, 1, [](Distributed& d) { d.fsdp2.reshard_after_forward = false; });
  add("fsdp2, no prefetch", Strategy::Fsdp2, 1, [](Distributed& d) { d.fsdp2.enable_fsdp2_prefetch = false; });
  add("fsdp2, far ahead", Strategy::Fsdp2, 1, [](Distributed& d) { d.fsdp2.forward_prefetch_depth = d.fsdp2.backward_prefetch_depth = 3; });
  if (ranks == 4) add("hybrid", Strategy::Fsdp2, 2, [](Distributed& d) { d.sizes.dp_replicate_size = 2; });
  return list;
}

/// Every way of keeping a small model.
struct Setting {
  Case c;
  DType dtype;
  bool tied;
  std::vector<std::string> frozen = {};  ///< freeze_config.patterns
};

std::vector<Setting> settings(std::int64_t ranks) {
  std::vector<Setting> all;
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::F32, DType::BF16})
      for (Case& c : cases(ranks)) all.push_back({std::move(c), dtype, tied});
  return all;
}

/// What libtorch allocates in the rank's main thread; messages are allocated elsewhere.
void expect_plan(const Setting& setting, double tolerance = 0.05) {
  const auto& [c, dtype, tied, frozen] = setting;
  const std::int64_t ranks = tessera::test::backend().world_size();
  const model::ModelSpec spec = small_spec(tied);
  config::Recipe recipe;
  recipe.distributed = c.strategy;
  recipe.freeze_config.patterns = frozen;
  recipe.step_scheduler.local_batch_size = 1;
  recipe.step_scheduler.global_batch_size = ranks * c.num_microbatches;
  const model::MemoryEstimate plan = memory_plan(recipe, spec, dtype, mesh::mesh_sizes(c.strategy, ranks), 1, 16).front();
  const Measured measured = measure(spec, c.strategy, dtype, c.num_microbatches, frozen_parameters(recipe));
  EXPECT_NEAR(static_cast<double>(plan.total() - plan.messages) / static_cast<double>(measured.peak), 1.0, tolerance)
      << c.name << (tied ? ", tied" : "") << (dtype == DType::F32 ? ", fp32" : ", bf16") << ": weights " << plan.weights << ", gradients "
      << plan.gradients << ", optimizer " << plan.optimizer << ", gathered " << plan.gathered << ", activations " << plan.activations << "; measured "
      << measured.persistent << " and " << measured.peak - measured.persistent << " more";
}

RANKS_TEST(Memory, LONG_ThePlanIsWhatIsAllocated, 2, 4) {
  for (const Setting& setting : settings(tessera::test::backend().world_size())) expect_plan(setting);
}

/// Each policy once, in one of the dtypes, tied or not.
RANKS_TEST(Memory, ThePlanIsWhatIsAllocatedBySample, 2) {
  std::vector<Setting> all = settings(2);
  std::mt19937 random(7);
  std::ranges::shuffle(all, random);
  std::set<std::string> seen;
  for (const Setting& setting : all)
    if (seen.insert(setting.c.name).second) expect_plan(setting);
}

/// The embedding, as the head or not, a whole block, and a part of the others.
RANKS_TEST(Memory, OfFrozenParametersAsWell, 2) {
  for (const Case& c : cases(2))
    for (const bool tied : {false, true}) expect_plan({c, DType::BF16, tied, {"embed_tokens", "layers\\.1\\.", "mlp"}}, 0.1);
}

model::ModelSpec small_spec_of_experts() {
  return model::model_spec_from_json({{"model_type", "qwen3_moe"},
                                      {"hidden_size", 128},
                                      {"intermediate_size", 352},
                                      {"moe_intermediate_size", 96},
                                      {"num_hidden_layers", 4},
                                      {"num_attention_heads", 4},
                                      {"num_key_value_heads", 2},
                                      {"head_dim", 32},
                                      {"num_experts", 8},
                                      {"num_experts_per_tok", 2},
                                      {"vocab_size", 2000},
                                      {"max_position_embeddings", 64},
                                      {"tie_word_embeddings", false}},
                                     "test");
}

/// This rank's estimate against its state and its peak, for ranks that differ in what they have of a model.
void expect_plan_of_split(const std::string& name, config::Distributed strategy, DType dtype = DType::F32, double tolerance = 0.1) {
  const std::int64_t ranks = tessera::test::backend().world_size();
  const model::ModelSpec spec = small_spec_of_experts();
  const std::int64_t pp = strategy.sizes.pp_size, num_microbatches = pp > 1 ? 2 * pp : 1;
  if (pp > 1) strategy.pipeline.emplace();
  const mesh::MeshSizes mesh = mesh::mesh_sizes(strategy, ranks);
  ProblemList problems;
  const auto pipeline = parallel::plan_pipeline(strategy, spec, static_cast<int>(num_microbatches), nullptr, problems);
  config::Recipe recipe;
  recipe.distributed = strategy;
  recipe.step_scheduler.local_batch_size = num_microbatches;
  recipe.step_scheduler.global_batch_size = mesh.dp() * num_microbatches;
  const std::vector<model::MemoryEstimate> plans = memory_plan(recipe, spec, dtype, mesh, 1, 16, pipeline);
  const mesh::MeshContext place(mesh, tessera::test::backend().rank());
  const model::MemoryEstimate& plan = plans[static_cast<std::size_t>(place.index(mesh::Axis::PipelineParallel)) % plans.size()];
  const Measured measured = measure(spec, strategy, dtype, num_microbatches);
  const auto ratio = [](std::int64_t planned, std::int64_t bytes) { return static_cast<double>(planned) / static_cast<double>(bytes); };
  EXPECT_NEAR(ratio(plan.weights + plan.gradients + plan.optimizer, measured.persistent), 1.0, 0.05) << name;
  EXPECT_NEAR(ratio(plan.total() - plan.messages, measured.peak), 1.0, tolerance)
      << name << ": gathered " << plan.gathered << ", activations " << plan.activations << "; measured " << measured.persistent << " and "
      << measured.peak - measured.persistent << " more";
}

RANKS_TEST(Memory, OfExpertsStagesAndTensorParallelRanks, 4) {
  expect_plan_of_split("fsdp2", {});
  expect_plan_of_split("ep 2", {.sizes = {.ep_size = 2}});
  expect_plan_of_split("ep 4", {.sizes = {.ep_size = 4}});
  expect_plan_of_split("tp 2", {.sizes = {.tp_size = 2}});
  expect_plan_of_split("tp 2 ep 2", {.sizes = {.tp_size = 2, .ep_size = 2}});
  expect_plan_of_split("pp 2", {.sizes = {.pp_size = 2}});
  expect_plan_of_split("pp 4", {.sizes = {.pp_size = 4}});
  expect_plan_of_split("pp 2 ep 2", {.sizes = {.pp_size = 2, .ep_size = 2}});
  config::Distributed fp32_head{.sizes = {.ep_size = 2}};
  fp32_head.moe.emplace().lm_head_precision = DType::F32;
  // The most of parameters in two dtypes is taken together, though it does not come at once.
  expect_plan_of_split("head in fp32", fp32_head, DType::BF16, 0.2);
}

}  // namespace
}  // namespace tessera::train
