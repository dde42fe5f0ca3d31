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
      .rows = 23,
      .steps = 2};
  if (split.pp > 1) c.distributed.pipeline.emplace();
  return c;
}

/// Of the small models, whose eight experts every ep divides.
TrainingCase small_case(const std::string& family, const Split& split, std::int64_t experts_per_token = 2) {
  const std::int64_t num_layers = std::max<std::int64_t>(2, split.pp);
  TrainingCase c = expert_case(fmt::format("small {} of {} layers, {} experts a token", family, num_layers, experts_per_token), split);
  c.config = small_expert_model(family, num_layers, experts_per_token);
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

/// In fp32 what little rounding does to a router sends a token elsewhere once its two next experts tie to seven digits: two steps, in which none
/// does. Biases that begin at zero are as small as two steps make them, and so is what their error is compared with.
void use_single_precision(TrainingCase& c) {
  c.dtype = DType::F32;
  c.weight_tolerance = 5e-3;
}

std::vector<TrainingCase> all_cases(DType dtype) {
  std::vector<TrainingCase> all;
  for (const auto& [family, fields] : kExpertFamilies) {
    for (const Split& split : splits()) {
      for (const bool resharded : {false, true}) {
        for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
          for (const bool packed : {false, true}) {
            TrainingCase& c = all.emplace_back(small_case(family, split));
            c.distributed.moe.emplace().reshard_after_forward = resharded;
            c.checkpointing = checkpointing;
            c.packed = packed;
            c.layout += resharded ? " resharded" : "";
            if (dtype == DType::F32) use_single_precision(c);
          }
        }
      }
    }
  }
  return all;
}

/// Every split of two families.
std::vector<TrainingCase> every_split() {
  std::vector<TrainingCase> all;
  for (const char* const family : {"qwen3_moe", "deepseek_v3"}) {
    for (const Split& split : splits()) {
      for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full}) {
        TrainingCase& c = all.emplace_back(small_case(family, split));
        c.distributed.moe.emplace().reshard_after_forward = checkpointing == ActivationCheckpointing::Full;
        c.checkpointing = checkpointing;
      }
    }
  }
  return all;
}

RANKS_TEST(ExpertParity, AnySplit, 2, 4, 8) { expect_parity(sample(all_cases(DType::F64), 4)); }
RANKS_TEST(ExpertParity, SinglePrecision, 2, 4, 8) { expect_parity(sample(all_cases(DType::F32), 3)); }
RANKS_TEST(ExpertParity, LONG_AnyTwoSettings, 2, 4, 8) { expect_parity(covering_pairs(all_cases(DType::F64))); }
RANKS_TEST(ExpertParity, LONG_SinglePrecision, 2, 4, 8) { expect_parity(covering_pairs(all_cases(DType::F32))); }
RANKS_TEST(ExpertParity, LONG_EverySplit, 2, 4, 8) { expect_parity(every_split()); }

/// In bf16 a router would choose otherwise wherever the work is split: every token goes to all experts.
RANKS_TEST(ExpertParity, HalfPrecision, 2, 4, 8) {
  std::vector<TrainingCase> all;
  for (const char* const family : {"qwen3_moe", "deepseek_v3", "mixtral"}) {
    for (const Split& split : splits()) {
      TrainingCase& c = all.emplace_back(small_case(family, split, 8));
      c.dtype = DType::BF16;
    }
  }
  expect_parity(sample(std::move(all), 2));
}

RANKS_TEST(ExpertParity, ExpertsAlone, 2, 4, 8) {
  for (const char* const type : {"qwen3_moe", "deepseek_v3"}) expect_parity(small_case(type, {.ep = backend().world_size()}));
}

/// Sinks, biases, shared experts and their gates, dense layers between, correction biases, latent attention.
RANKS_TEST(ExpertParity, Families, 2, 4) {
  bool single = false;
  for (const char* const model : {"mixtral", "qwen2_moe", "gpt_oss", "glm4_moe", "deepseek_v3_yarn"}) {
    const Split tp{.ep = backend().world_size() / 2, .tp = 2, .sequence_parallel = single}, cp{.ep = 2, .cp = 2};
    for (const Split& split : {tp, cp}) {
      TrainingCase c = expert_case(model, split);
      if (single) use_single_precision(c);
      expect_parity(c);
      single = !single;
    }
    single = !single;
  }
}

/// Ranks whose tokens all go elsewhere, and ranks to which all tokens come: routers that know no difference choose the first experts. With all eight
/// for each token, every expert has as many.
RANKS_TEST(ExpertParity, OneExpertForAllAndAllInBalance, 2, 4) {
  for (const std::int64_t experts_per_token : {1, 2, 8}) {
    TrainingCase c = small_case("qwen3_moe", {.ep = backend().world_size()}, experts_per_token);
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
