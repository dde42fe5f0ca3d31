// Every way of sharing the work over data-parallel ranks gives what one process gives.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include "distributed/trajectory.h"

namespace tessera::test {
namespace {

using model::ActivationCheckpointing;

struct Policy {
  std::string name;
  config::Distributed distributed;
};

Policy fsdp2(const std::string& name, const std::function<void(config::Distributed&)>& change = {}) {
  Policy policy{.name = name, .distributed = {.strategy = config::Strategy::Fsdp2}};
  if (change) change(policy.distributed);
  return policy;
}

Policy zero_stage(std::int64_t stage) {
  Policy policy{.name = fmt::format("zero-{}", stage), .distributed = {.strategy = config::Strategy::MegatronFsdp}};
  policy.distributed.megatron_fsdp.zero_dp_strategy = stage;
  return policy;
}

std::vector<Policy> policies(std::int64_t ranks) {
  std::vector<Policy> all{{.name = "ddp", .distributed = {.strategy = config::Strategy::Ddp}},
                          fsdp2("fsdp2"),
                          fsdp2("fsdp2-every-microbatch", [](auto& d) { d.fsdp2.defer_fsdp_grad_sync = false; }),
                          fsdp2("fsdp2-keep-weights",
                                [](auto& d) {
                                  d.fsdp2.reshard_after_forward = false;
                                  d.fsdp2.enable_fsdp2_prefetch = false;
                                }),
                          zero_stage(0),
                          zero_stage(1),
                          zero_stage(2),
                          zero_stage(3)};
  for (const std::int64_t replicas : {2, 4}) {
    if (ranks <= replicas || ranks % replicas != 0) continue;
    all.push_back(fsdp2(fmt::format("hybrid-{}", replicas), [&](auto& d) { d.sizes.dp_replicate_size = replicas; }));
  }
  return all;
}

std::vector<TrainingCase> all_cases(const std::vector<std::string>& models, DType dtype) {
  std::vector<TrainingCase> all;
  for (const std::string& model : models)
    for (const Policy& policy : policies(backend().world_size()))
      for (const std::int64_t accumulation : {1, 3})
        for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full})
          all.push_back({model, policy.name, policy.distributed, accumulation, checkpointing, dtype});
  return all;
}

std::vector<TrainingCase> some_cases(DType dtype, std::size_t count) {
  return sample(all_cases({"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2"}, dtype), count);
}

/// Whatever the sample is, gradients of several microbatches add up under every policy.
TEST(Parity, EveryPolicyAccumulates) {
  std::vector<TrainingCase> cases;
  for (const Policy& policy : policies(backend().world_size()))
    cases.push_back({.model = "qwen3", .layout = policy.name, .distributed = policy.distributed, .accumulation = 3});
  expect_parity(cases);
}

TEST(Parity, SinglePrecision) { expect_parity(some_cases(DType::F32, 8)); }
TEST(Parity, HalfPrecision) { expect_parity(some_cases(DType::BF16, 4)); }
TEST(Parity, LONG_SinglePrecision) { expect_parity(all_cases(golden_models(), DType::F32)); }
TEST(Parity, LONG_HalfPrecision) { expect_parity(all_cases(golden_models(), DType::BF16)); }

TEST(Parity, TwiceTheSameBits) {
  for (const Policy& policy : policies(backend().world_size())) {
    SCOPED_TRACE(policy.name);
    const TrainingCase c{.model = "llama_tied_llama3_rope",
                         .layout = policy.name,
                         .distributed = policy.distributed,
                         .accumulation = 3,
                         .dtype = DType::BF16,
                         .steps = 2};
    const Trajectory first = run(c, backend()), second = run(c, backend());
    EXPECT_EQ(first.losses, second.losses);
    for (const auto& [name, weight] : first.weights) EXPECT_TRUE(at::equal(weight, second.weights.at(name))) << name;
  }
}

}  // namespace
}  // namespace tessera::test
