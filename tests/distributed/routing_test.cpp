// Auxiliary losses and updates of correction biases see the choices of all ranks, however these share the work.
#include "distributed/trajectory.h"

namespace tessera::test {
namespace {

using config::Distributed;
using config::Strategy;
using model::BalanceScope;

struct RoutingLayout {
  std::string name;
  Distributed distributed;
};

/// Ways to hold weights, of which each has its own part of a correction bias, and ways to share tokens.
std::vector<RoutingLayout> routing_layouts() {
  const int ranks = backend().world_size();
  std::vector<RoutingLayout> all{{"ddp", {.strategy = Strategy::Ddp}}, {"fsdp2", {.strategy = Strategy::Fsdp2}}};
  for (const std::int64_t stage : {1, 2}) {
    all.push_back({"zero-" + std::to_string(stage), {.strategy = Strategy::MegatronFsdp}});
    all.back().distributed.megatron_fsdp.zero_dp_strategy = stage;
  }
  if (ranks % 2 != 0) return all;
  all.push_back({"cp-2", {.sizes = {.cp_size = 2}}});
  all.push_back({"tp-2", {.sizes = {.tp_size = 2}}});
  all.push_back({"tp-2 sequence", {.sizes = {.tp_size = 2}, .sequence_parallel = true}});
  all.push_back({"ep-2", {.sizes = {.ep_size = 2}}});
  all.push_back({"pp-2", {.sizes = {.pp_size = 2}}});
  all.back().distributed.pipeline.emplace();
  if (ranks > 2) all.push_back({"hybrid-2", {.sizes = {.dp_replicate_size = 2}}});
  return all;
}

/// In fp64: every choice is the same, so biases are too. One layout runs every block again: what it chooses counts once.
std::vector<TrainingCase> cases(const std::string& model, std::int64_t accumulation, const model::RoutingOptions& routing, double bias_update = 0.0) {
  std::vector<TrainingCase> all;
  for (const RoutingLayout& layout : routing_layouts())
    all.push_back({.model = model,
                   .layout = layout.name,
                   .distributed = layout.distributed,
                   .accumulation = accumulation,
                   .checkpointing = layout.name == "fsdp2" ? model::ActivationCheckpointing::Full : model::ActivationCheckpointing::None,
                   .dtype = DType::F64,
                   .steps = 4,
                   .routing = routing,
                   .bias_update = bias_update});
  return all;
}

TEST(RoutingOverRanks, LossesBySequenceDoNotDependOnTheSplit) {
  expect_parity(cases("mixtral", 3, {.balance_loss = 0.5, .z_loss = 0.1, .capacity_factor = {}}));
}

TEST(RoutingOverRanks, CorrectionBiasesFollowTheLoadsOfAllRanksAndMicrobatches) { expect_parity(cases("glm4_moe", 3, {}, 0.01)); }

/// A microbatch is that of all ranks: one for the whole step is the same everywhere.
TEST(RoutingOverRanks, TheLossByMicrobatchIsOverAllRanks) {
  std::vector<TrainingCase> whole;
  for (TrainingCase& c : cases("deepseek_v3_yarn", 1, {.balance_loss = 0.5, .balance_scope = BalanceScope::Microbatch, .capacity_factor = {}}, 0.01))
    if (c.distributed.sizes.pp_size == 1) whole.push_back(c);
  expect_parity(whole);
}

}  // namespace
}  // namespace tessera::test
