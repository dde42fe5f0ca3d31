// Experts over the ranks of ep, beside every other split, give what one process gives.
#include <fmt/format.h>

#include "distributed/expert_models.h"
#include "distributed/trajectory.h"

namespace tessera::test {
namespace {

using model::ActivationCheckpointing;

struct Split {
  std::int64_t ep = 1, tp = 1, cp = 1, pp = 1, replicas = 1;
  bool sequence_parallel = false;
};

TrainingCase expert_case(const std::string& model, const Split& split) {
  const std::int64_t dp = backend().world_size() / (split.tp * split.cp * split.pp);
  const std::int64_t accumulation = split.pp > 1 ? split.pp + 1 : 2;
  TrainingCase c{
      .model = model,
      .layout = fmt::format("ep {} tp {}{} cp {} pp {} replicas {}", split.ep, split.tp, split.sequence_parallel ? " sequence" : "", split.cp,
                            split.pp, split.replicas),
      .distributed =
          {.sizes = {.dp_replicate_size = split.replicas, .tp_size = split.tp, .pp_size = split.pp, .cp_size = split.cp, .ep_size = split.ep},
           .sequence_parallel = split.sequence_parallel},
      .accumulation = accumulation,
      .dtype = DType::F64,
      .rows = 3 * accumulation * dp - 1,
      .steps = 3};
  if (split.pp > 1) c.distributed.pipeline.emplace();
  return c;
}

/// Of the small models, whose eight experts every ep divides.
TrainingCase small_case(const std::string& type, const Split& split) {
  const std::int64_t num_layers = std::max<std::int64_t>(2, split.pp);
  TrainingCase c = expert_case(fmt::format("small {} of {} layers", type, num_layers), split);
  c.config = small_expert_model(type, num_layers);
  return c;
}

/// Every way of sharing out the ranks with experts among them. ep lies over dp_shard and cp; 1 of it: all ranks have all experts.
std::vector<Split> splits() {
  const std::int64_t ranks = backend().world_size();
  std::vector<Split> all;
  for (const std::int64_t pp : {1, 2, 4}) {
    for (const std::int64_t tp : {1, 2}) {
      for (const std::int64_t cp : {1, 2}) {
        for (const std::int64_t replicas : {1, 2}) {
          if (ranks % (pp * tp * cp * replicas) != 0) continue;
          const std::int64_t shards = ranks / (pp * tp * cp * replicas);
          if (replicas > 1 && shards == 1) continue;
          for (const std::int64_t ep : {1, 2, 4, 8}) {
            if (shards * cp % ep != 0) continue;
            for (const bool sequence : {false, true})
              if (!sequence || tp > 1) all.push_back({ep, tp, cp, pp, replicas, sequence});
          }
        }
      }
    }
  }
  return all;
}

std::vector<TrainingCase> all_cases() {
  std::vector<TrainingCase> all;
  for (const char* const type : {"qwen3_moe", "deepseek_v3"}) {
    for (const Split& split : splits()) {
      for (const bool resharded : {false, true}) {
        TrainingCase c = small_case(type, split);
        c.distributed.moe.emplace().reshard_after_forward = resharded;
        c.checkpointing = resharded ? ActivationCheckpointing::Full : ActivationCheckpointing::None;
        c.layout += resharded ? " resharded" : "";
        all.push_back(c);
      }
    }
  }
  return all;
}

RANKS_TEST(ExpertParity, AnySplit, 2, 4, 8) { expect_parity(sample(all_cases(), 6)); }
RANKS_TEST(ExpertParity, LONG_AnyTwoSettings, 2, 4, 8) { expect_parity(covering_pairs(all_cases())); }
RANKS_TEST(ExpertParity, LONG_EverySplit, 2, 4, 8) { expect_parity(all_cases()); }

RANKS_TEST(ExpertParity, ExpertsAlone, 2, 4, 8) {
  for (const char* const type : {"qwen3_moe", "deepseek_v3"}) expect_parity(small_case(type, {.ep = backend().world_size()}));
}

/// Sinks, biases, shared experts and their gates, dense layers between, correction biases, latent attention.
RANKS_TEST(ExpertParity, Families, 2, 4) {
  for (const char* const model : {"mixtral", "qwen2_moe", "gpt_oss", "glm4_moe", "deepseek_v3_yarn"}) {
    expect_parity(expert_case(model, {.ep = 2}));
    expect_parity(expert_case(model, {.tp = 2}));
    expect_parity(expert_case(model, {.ep = backend().world_size() / 2, .tp = 2, .sequence_parallel = true}));
    expect_parity(expert_case(model, {.ep = 2, .cp = 2}));
  }
}

/// Ranks whose tokens all go elsewhere, and ranks to which all tokens come: routers that know no difference choose the first experts. With all eight
/// for each token, every expert has as many.
RANKS_TEST(ExpertParity, OneExpertForAllAndAllInBalance, 2, 4) {
  for (const std::int64_t experts_per_token : {1, 2, 8}) {
    TrainingCase c = small_case("qwen3_moe", {.ep = backend().world_size()});
    c.config = small_expert_model("qwen3_moe", 2, experts_per_token);
    c.model += fmt::format(", {} experts a token", experts_per_token);
    c.indifferent_routers = true;
    expect_parity(c);
  }
}

RANKS_TEST(ExpertParity, FewerRowsThanRanks, 4) {
  for (const Split& split : {Split{.ep = 4}, Split{.ep = 2, .tp = 2}, Split{.ep = 2, .cp = 2}}) {
    TrainingCase c = small_case("deepseek_v3", split);
    c.rows = 1;
    c.accumulation = 1;
    expect_parity(c);
  }
}

RANKS_TEST(ExpertParity, PackedRowsAndRecomputation, 4) {
  for (const auto checkpointing : {ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
    TrainingCase c = small_case("deepseek_v3", {.ep = 4, .cp = 2});
    c.packed = true;
    c.checkpointing = checkpointing;
    expect_parity(c);
  }
}

}  // namespace
}  // namespace tessera::test
