// Splitting layers over tp, sequences over tp and cp, and both with every data-parallel policy gives what one process gives.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <array>
#include <random>

#include "distributed/expert_models.h"
#include "distributed/frozen.h"
#include "distributed/schedules.h"
#include "distributed/trajectory.h"
#include "tessera/config/pipeline_schedule.h"

namespace tessera::test {
namespace {

using config::CpAttention;
using model::ActivationCheckpointing;

const std::vector<std::string> kSplitModels = {"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2", "phi3_longrope"};
constexpr std::array kAttentions = {std::pair{CpAttention::Ring, "ring"}, std::pair{CpAttention::AllGather, "allgather"},
                                    std::pair{CpAttention::AllToAll, "all_to_all"}};

TrainingCase split(const std::string& model, std::int64_t tp, bool sequence_parallel, std::int64_t cp = 1, std::size_t attention = 0) {
  config::Distributed distributed{.sizes = {.tp_size = tp, .cp_size = cp}, .sequence_parallel = sequence_parallel};
  distributed.cp_attention = kAttentions[attention].first;
  std::string name = "fsdp2";
  if (tp > 1) name += fmt::format(" tp {}{}", tp, sequence_parallel ? " sequence" : "");
  if (cp > 1) name += fmt::format(" cp {} {}", cp, kAttentions[attention].second);
  return {.model = model, .layout = name, .distributed = distributed, .steps = 2, .weight_tolerance = 1e-4, .norm_tolerance = 5e-5};
}

/// A rank of cp exchanges whole heads in all_to_all; all goldens have 8 query and 4 key/value heads (gpt2: 8).
bool has_heads(std::int64_t tp, std::int64_t cp) { return 8 / tp % cp == 0; }

/// Every split of the ranks over tp and cp, the rest being data-parallel.
std::vector<TrainingCase> splits(const std::string& model) {
  const std::int64_t ranks = backend().world_size();
  std::vector<TrainingCase> all;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t cp : {1, 2, 3, 4, 8}) {
      if (tp * cp == 1 || ranks % (tp * cp) != 0) continue;
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && tp == 1) continue;
        for (std::size_t attention = 0; attention < (cp == 1 ? 1 : kAttentions.size()); ++attention)
          if (kAttentions[attention].first != CpAttention::AllToAll || cp == 1 || has_heads(tp, cp))
            all.push_back(split(model, tp, sequence_parallel, cp, attention));
      }
    }
  }
  return all;
}

std::int64_t dp_size(const TrainingCase& c) {
  const config::ParallelismSizes& sizes = c.distributed.sizes;
  return backend().world_size() / (sizes.tp_size * sizes.cp_size * sizes.pp_size);
}

/// Other ways for fsdp2's ranks to hold the weights.
void use_zero(TrainingCase& c, std::int64_t stage) {
  c.distributed.strategy = config::Strategy::MegatronFsdp;
  c.distributed.megatron_fsdp.zero_dp_strategy = stage;
  c.layout = fmt::format("zero-{}{}", stage, c.layout.substr(5));
}
bool can_replicate(const TrainingCase& c) { return dp_size(c) > 2 && dp_size(c) % 2 == 0; }
void use_replicas(TrainingCase& c) {
  c.distributed.sizes.dp_replicate_size = 2;
  c.layout += " hybrid 2";
}

std::vector<TrainingCase> every_strategy(const TrainingCase& fsdp2) {
  std::vector<TrainingCase> all{fsdp2};
  if (can_replicate(fsdp2)) use_replicas(all.emplace_back(fsdp2));
  if (dp_size(fsdp2) * fsdp2.distributed.sizes.cp_size > 1 && !fsdp2.distributed.sequence_parallel)
    for (const std::int64_t stage : {1, 2, 3}) use_zero(all.emplace_back(fsdp2), stage);
  return all;
}

std::vector<TrainingCase> splits_by_every_strategy(const std::string& model) {
  std::vector<TrainingCase> all;
  for (const TrainingCase& fsdp2 : splits(model))
    for (TrainingCase& c : every_strategy(fsdp2)) all.push_back(std::move(c));
  return all;
}

/// What megatron_fsdp does not do, fsdp2 does.
bool goes_with(const config::Distributed& distributed, ActivationCheckpointing checkpointing) {
  return distributed.strategy != config::Strategy::MegatronFsdp || checkpointing != ActivationCheckpointing::Selective;
}

/// The same with everything else that may differ.
std::vector<TrainingCase> all_cases(const std::vector<std::string>& models, DType dtype, std::int64_t steps) {
  std::vector<TrainingCase> all;
  for (const std::string& model : models) {
    for (const TrainingCase& base : splits_by_every_strategy(model)) {
      for (const bool packed : {false, true}) {
        for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
          if (!goes_with(base.distributed, checkpointing)) continue;
          TrainingCase c = base;
          c.packed = packed;
          c.checkpointing = checkpointing;
          c.dtype = dtype;
          c.steps = steps;
          c.accumulation = packed ? 3 : 1;
          all.push_back(c);
        }
      }
    }
  }
  return all;
}

RANKS_TEST(SplitParity, DoublePrecision, 2, 3, 4, 8) { expect_parity(sample(all_cases(kSplitModels, DType::F64, 3), 5)); }
RANKS_TEST(SplitParity, SinglePrecision, 2, 3, 4, 8) { expect_parity(sample(all_cases(kSplitModels, DType::F32, 10), 4)); }
RANKS_TEST(SplitParity, HalfPrecision, 2, 4, 8) { expect_parity(sample(all_cases(kSplitModels, DType::BF16, 10), 3)); }
RANKS_TEST(SplitParity, LONG_DoublePrecision, 2, 3, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::F64, 4))); }
RANKS_TEST(SplitParity, LONG_SinglePrecision, 2, 3, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::F32, 10))); }
RANKS_TEST(SplitParity, LONG_HalfPrecision, 2, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::BF16, 10))); }

/// Each axis by itself, in every way; two settings of everything together in one of the above, the rest at random below.
RANKS_TEST(SplitParity, LONG_EveryAxisAlone, 2, 3, 4, 8) {
  std::vector<TrainingCase> alone = all_cases(golden_models(), DType::F64, 4);
  std::erase_if(alone, [](const TrainingCase& c) {
    const config::ParallelismSizes& sizes = c.distributed.sizes;
    return c.distributed.strategy != config::Strategy::Fsdp2 || (sizes.tp_size > 1 && sizes.cp_size > 1) ||
           std::max(sizes.tp_size, sizes.cp_size) < backend().world_size();
  });
  expect_parity(alone);
}

RANKS_TEST(SplitParity, TensorParallelAlone, 2, 4) {
  bool sequence_parallel = false;
  for (const std::string& model : kSplitModels) expect_parity(split(model, backend().world_size(), sequence_parallel = !sequence_parallel));
}

RANKS_TEST(SplitParity, ContextParallelAlone, 2, 3) {
  for (std::size_t attention = 0; attention < kAttentions.size(); ++attention)
    if (kAttentions[attention].first != CpAttention::AllToAll || has_heads(1, backend().world_size()))
      expect_parity(split("gemma2", 1, false, backend().world_size(), attention));
}

/// Frequencies follow a document's own length, of which a rank has a part.
RANKS_TEST(SplitParity, RotationsOfSplitDocuments, 2) {
  for (const bool packed : {false, true}) {
    TrainingCase c = split("phi3_longrope", 1, false, 2);
    c.packed = packed;
    expect_parity(c);
  }
}

/// 323 tokens over 2 or 4 ranks: the last has fewer.
RANKS_TEST(SplitParity, VocabularyThatDoesNotDivide, 2, 4) {
  TrainingCase c = split("qwen3", backend().world_size(), true);
  c.vocab_size = 323;
  expect_parity(c);
}

/// Some data-parallel ranks have nothing but a filler of one token, which the ranks of tp and cp cannot all have a part of.
RANKS_TEST(SplitParity, FewerRowsThanRanks, 4) {
  for (TrainingCase c : sample(splits("qwen3"), 7)) {
    c.rows = 1;
    expect_parity(c);
  }
}

/// Random weights of a small dense model.
Json small_model(const std::string& type) {
  Json config = {{"model_type", type},       {"vocab_size", 61},         {"hidden_size", 32}, {"intermediate_size", 48}, {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 8},     {"pad_token_id", nullptr}, {"eos_token_id", nullptr}};
  if (type == "mistral" || type == "gemma2") config["sliding_window"] = 6;
  return config;
}

/// Two ranks hold each key/value head, and share its gradient; olmo2 normalises all heads as one vector, qwen2 has biases.
RANKS_TEST(SplitParity, RanksThatShareAKeyHead, 4) {
  for (const char* const type : {"olmo2", "qwen3", "qwen2"}) {
    for (const bool sequence_parallel : {false, true}) {
      TrainingCase c = split(std::string("small ") + type, 4, sequence_parallel);
      c.config = small_model(type);
      c.dtype = DType::F64;
      expect_parity(c);
    }
  }
}

/// Parts that the plan leaves whole.
RANKS_TEST(SplitParity, PartsOfTheModel, 2, 4) {
  const std::map<std::string, std::string> feed_forward = {
      {"layers.*.mlp.gate_proj", "colwise"}, {"layers.*.mlp.up_proj", "colwise"}, {"layers.*.mlp.down_proj", "rowwise"}};
  const std::map<std::string, std::string> vocabulary = {{"embed_tokens", "rowwise"}, {"lm_head", "colwise_rep"}};
  for (const auto& plan : {feed_forward, vocabulary}) {
    for (const bool sequence_parallel : {false, true}) {
      TrainingCase c = split("qwen3", backend().world_size(), sequence_parallel);
      c.distributed.tp_plan = plan;
      c.layout += " " + plan.begin()->first;
      expect_parity(c);
    }
  }
}

RANKS_TEST(SplitParity, OverlappedChunks, 2, 4) {
  TrainingCase c = split("phi3_longrope", backend().world_size(), true);
  c.distributed.enable_async_tensor_parallel = true;
  expect_parity(c);
}

/// Masks are functions of the token and the head, whoever computes them.
RANKS_TEST(SplitParity, Dropout, 2, 4) {
  for (TrainingCase c : sample(splits("gpt2"), 7)) {
    c.dropout = true;
    expect_parity(c);
  }
}

/// Numbers drawn one after another, from a seed.
struct Draw {
  std::mt19937 random;

  auto of(const auto& values) { return values[std::uniform_int_distribution<std::size_t>(0, std::size(values) - 1)(random)]; }
  std::int64_t between(std::int64_t first, std::int64_t last) { return std::uniform_int_distribution(first, last)(random); }
  bool one_in(std::int64_t count) { return between(1, count) == 1; }
};

/// The goldens have four layers: eight stages are too many.
using config::PipelineSchedule;
constexpr std::int64_t kMostStages = 4;
const std::vector<PipelineSchedule> kOneStageEach = {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB};

void draw_stages(TrainingCase& c, Draw& draw) {
  if (dp_size(c) % 2 != 0 || draw.one_in(2)) return;
  const std::int64_t pp = dp_size(c) % 4 == 0 ? draw.of(std::array{2, 4}) : 2;
  const PipelineSchedule schedule = draw.of(pp == 2 ? kAnySchedule : kOneStageEach);
  c.distributed.sizes.pp_size = pp;
  c.distributed.pipeline.emplace().pp_schedule = schedule;
  c.accumulation = draw.between(2, 3) * pp;
  c.layout += fmt::format(" pp {} {}", pp, config::to_string(schedule));
}

void draw_strategy(TrainingCase& c, Draw& draw) {
  if (!c.distributed.pipeline && !c.distributed.sequence_parallel && draw.one_in(3)) {
    use_zero(c, draw.between(0, 3));
  } else if (can_replicate(c) && draw.one_in(2)) {
    use_replicas(c);
  }
  c.distributed.fsdp2.defer_fsdp_grad_sync = draw.one_in(2);
  c.distributed.enable_async_tensor_parallel = c.distributed.sequence_parallel && draw.one_in(2);
}

void draw_recomputation(TrainingCase& c, Draw& draw) {
  c.checkpointing = draw.of(std::array{ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective});
  if (!goes_with(c.distributed, c.checkpointing)) c.checkpointing = ActivationCheckpointing::Full;
  c.routing.save_routing = draw.one_in(2);
  if (c.checkpointing != ActivationCheckpointing::Full || draw.one_in(2)) return;
  c.distributed.activation_checkpointing = config::ActivationCheckpointing::Full;
  c.distributed.offload_activations = true;
}

void draw_rows(TrainingCase& c, Draw& draw) {
  c.packed = draw.one_in(2);
  c.rows = draw.between(1, 24);
  c.length = draw.between(c.packed ? 18 : 2, 40);
  c.dropout = draw.one_in(3);
}

/// Another size for all that a model of random weights has, of those that eight ranks can share in any way.
void draw_sizes(TrainingCase& c, Draw& draw) {
  const bool of_experts = c.config.contains("moe_intermediate_size");  // whose first layer may be dense
  const std::int64_t heads = 8 * draw.between(1, 2), least_layers = c.distributed.pipeline ? kMostStages : of_experts ? 2 : 1;
  c.config.update({{"hidden_size", 8 * draw.between(2, 6)},
                   {"intermediate_size", 8 * draw.between(2, 8)},
                   {"vocab_size", draw.between(33, 400)},
                   {"num_hidden_layers", least_layers + draw.between(0, 2)},
                   {"num_attention_heads", heads}});
  if (of_experts) c.config["moe_intermediate_size"] = 4 * draw.between(2, 8);
  const bool latent = c.config.contains("kv_lora_rank");
  c.config["num_key_value_heads"] = latent ? heads : draw.of(std::array{1, 2, 4, 8});
  if (latent) {
    c.config["kv_lora_rank"] = draw.between(5, 20);
  } else {
    c.config["head_dim"] = 4 * draw.between(1, 3);
  }
  c.model = c.config.dump();
}

/// Experts, over a part of the ranks that the rest is sharded over. What little rounding does to a router may send a token elsewhere: two steps of
/// fp32, and in bf16 every token goes to all experts.
void draw_experts(TrainingCase& c, Draw& draw) {
  const config::ParallelismSizes& sizes = c.distributed.sizes;
  std::vector<std::int64_t> fitting;
  for (const std::int64_t ep : {1, 2, 4, 8})
    if (dp_size(c) / sizes.dp_replicate_size * sizes.cp_size % ep == 0) fitting.push_back(ep);
  c.distributed.sizes.ep_size = draw.of(fitting);
  c.distributed.moe.emplace().reshard_after_forward = draw.one_in(2);
  c.layout += fmt::format(" ep {}", sizes.ep_size);
  std::vector<std::string> families;
  for (const auto& [family, fields] : kExpertFamilies) families.push_back(family);
  c.config = small_expert_model(draw.of(families), kMostStages, c.dtype == DType::BF16 ? 8 : draw.between(1, 3));
  if (c.dtype == DType::F32) c.steps = 2;
}

/// A golden, or random weights of a dense model or one of experts.
void draw_model(TrainingCase& c, Draw& draw) {
  c.dtype = draw.of(std::array{DType::F64, DType::F64, DType::F32, DType::F32, DType::BF16});
  if (c.distributed.strategy == config::Strategy::Fsdp2 && draw.one_in(2)) {
    draw_experts(c, draw);
  } else if (draw.one_in(2)) {
    c.config = small_model(draw.of(std::array{"llama", "mistral", "qwen2", "qwen3", "olmo2", "gemma2"}));
  } else {
    c.vocab_size = draw.of(std::array{0, 0, 323});
    return;
  }
  draw_sizes(c, draw);
}

/// Any composition of everything, a function of its number. By hand: --gtest_filter='*RandomComposition*/17'.
TrainingCase random_case(int number) {
  Draw draw{std::mt19937(static_cast<unsigned>(number) * 7919U + static_cast<unsigned>(backend().world_size()))};
  const std::string golden = draw.of(golden_models());
  TrainingCase c = draw.one_in(4) ? split(golden, 1, false) : draw.of(splits(golden));
  c.accumulation = draw.between(1, 3);
  c.steps = 3;
  draw_stages(c, draw);
  draw_strategy(c, draw);
  draw_recomputation(c, draw);
  draw_rows(c, draw);
  draw_model(c, draw);
  if (c.dtype != DType::BF16 && draw.one_in(2)) c.frozen = draw.of(kFrozen);  // of few gradients, rounding to bf16 leaves little
  c.weight_tolerance = c.config.is_null() ? 1e-3 : 5e-3;                      // biases of random models begin at zero; fp64 is strict
  return c;
}

class RandomComposition : public testing::TestWithParam<int> {};
class SomeRandomCompositions : public RandomComposition {};
[[maybe_unused]] const bool at_these_ranks =
    runs_only_with("SomeRandomCompositions.MatchOneProcess", {8}) && runs_only_with("RandomComposition.LONG_MatchesOneProcess", {4, 8});
INSTANTIATE_TEST_SUITE_P(Seeded, SomeRandomCompositions, testing::Range(0, 4));
INSTANTIATE_TEST_SUITE_P(Seeded, RandomComposition, testing::Range(0, 200));
TEST_P(SomeRandomCompositions, MatchOneProcess) { expect_parity(random_case(GetParam())); }
TEST_P(RandomComposition, LONG_MatchesOneProcess) { expect_parity(random_case(GetParam())); }

RANKS_TEST(SplitParity, TwiceTheSameBits, 4) {
  for (std::size_t attention = 0; attention < kAttentions.size(); ++attention) {
    TrainingCase c = split("qwen3", 2, true, 2, attention);
    c.steps = 2;
    const Trajectory first = run(c, backend()), second = run(c, backend());
    EXPECT_EQ(first.losses, second.losses);
    for (const auto& [name, weight] : first.weights) EXPECT_TRUE(at::equal(weight, second.weights.at(name))) << name;
  }
}

}  // namespace
}  // namespace tessera::test
