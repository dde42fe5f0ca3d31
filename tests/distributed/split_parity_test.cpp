// Splitting layers over tp, sequences over tp and cp, and both with every data-parallel policy gives what one process gives.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <array>
#include <random>
#include <set>

#include "distributed/expert_models.h"
#include "distributed/schedules.h"
#include "distributed/trajectory.h"
#include "tessera/config/pipeline_schedule.h"

namespace tessera::test {
namespace {

using config::CpAttention;
using model::ActivationCheckpointing;

const std::vector<std::string> kModels = {"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2", "phi3_longrope"};
constexpr std::array kAttentions = {std::pair{CpAttention::Ring, "ring"}, std::pair{CpAttention::AllGather, "allgather"},
                                    std::pair{CpAttention::AllToAll, "all_to_all"}};

TrainingCase split(const std::string& model, std::int64_t tp, bool sequence_parallel, std::int64_t cp = 1, std::size_t attention = 0) {
  config::Distributed distributed{.sizes = {.tp_size = tp, .cp_size = cp}, .sequence_parallel = sequence_parallel};
  distributed.cp_attention = kAttentions[attention].first;
  std::string name = "fsdp2";
  if (tp > 1) name += fmt::format(" tp {}{}", tp, sequence_parallel ? " sequence" : "");
  if (cp > 1) name += fmt::format(" cp {} {}", cp, kAttentions[attention].second);
  return {.model = model, .layout = name, .distributed = distributed, .steps = 4, .weight_tolerance = 1e-4, .norm_tolerance = 5e-5};
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

/// The same with everything else that may differ.
std::vector<TrainingCase> all_cases(const std::vector<std::string>& models, DType dtype) {
  std::vector<TrainingCase> all;
  for (const std::string& model : models) {
    for (const TrainingCase& base : splits(model)) {
      for (const bool packed : {false, true}) {
        for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
          TrainingCase c = base;
          c.packed = packed;
          c.checkpointing = checkpointing;
          c.dtype = dtype;
          c.steps = dtype == DType::F64 ? 4 : 10;
          c.accumulation = packed ? 3 : 1;
          all.push_back(c);
        }
      }
    }
  }
  return all;
}

RANKS_TEST(SplitParity, DoublePrecision, 2, 3, 4, 8) { expect_parity(sample(all_cases(kModels, DType::F64), 6)); }
RANKS_TEST(SplitParity, SinglePrecision, 2, 3, 4, 8) { expect_parity(sample(all_cases(kModels, DType::F32), 4)); }
RANKS_TEST(SplitParity, HalfPrecision, 2, 4, 8) { expect_parity(sample(all_cases(kModels, DType::BF16), 3)); }
RANKS_TEST(SplitParity, LONG_DoublePrecision, 2, 3, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::F64))); }
RANKS_TEST(SplitParity, LONG_SinglePrecision, 2, 3, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::F32))); }
RANKS_TEST(SplitParity, LONG_HalfPrecision, 2, 4, 8) { expect_parity(covering_pairs(all_cases(golden_models(), DType::BF16))); }

/// Each axis by itself, in every way; two settings of everything together in one of the above, the rest at random below.
RANKS_TEST(SplitParity, LONG_EveryAxisAlone, 2, 3, 4, 8) {
  std::vector<TrainingCase> alone = all_cases(golden_models(), DType::F64);
  std::erase_if(alone, [](const TrainingCase& c) {
    const config::ParallelismSizes& sizes = c.distributed.sizes;
    return (sizes.tp_size > 1 && sizes.cp_size > 1) || std::max(sizes.tp_size, sizes.cp_size) < backend().world_size();
  });
  expect_parity(alone);
}

RANKS_TEST(SplitParity, TensorParallelAlone, 2, 4) {
  for (const std::string& model : kModels)
    for (const bool sequence_parallel : {false, true}) expect_parity(split(model, backend().world_size(), sequence_parallel));
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
  for (TrainingCase c : splits("qwen3")) {
    c.rows = 1;
    expect_parity(c);
  }
}

/// Two ranks hold each key/value head, and share its gradient; olmo2 normalises all heads as one vector.
RANKS_TEST(SplitParity, RanksThatShareAKeyHead, 4) {
  for (const char* const type : {"olmo2", "qwen3"}) {
    for (const bool sequence_parallel : {false, true}) {
      TrainingCase c = split(std::string("small ") + type, 4, sequence_parallel);
      c.config = {{"model_type", type},       {"vocab_size", 61},         {"hidden_size", 32}, {"intermediate_size", 48}, {"num_hidden_layers", 2},
                  {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 8},     {"pad_token_id", nullptr}, {"eos_token_id", nullptr}};
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
  for (TrainingCase c : splits("gpt2")) {
    c.dropout = true;
    for (const DType dtype : {DType::F32, DType::F64}) {
      c.dtype = dtype;
      expect_parity(c);
    }
  }
}

/// The goldens have four layers: eight stages are too many.
using config::PipelineSchedule;
const std::vector<PipelineSchedule> kOneStageEach = {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB};

void cut_into_stages(TrainingCase& c, std::int64_t pp, PipelineSchedule schedule, std::int64_t num_microbatches) {
  c.distributed.sizes.pp_size = pp;
  c.distributed.pipeline.emplace().pp_schedule = schedule;
  c.accumulation = num_microbatches;
  c.layout += fmt::format(" pp {} {}", pp, config::to_string(schedule));
}

/// Experts instead of the golden's feed-forward, over a part of the ranks that the rest is sharded over. What little rounding does to a router may
/// send a token elsewhere: fp64.
void give_experts(TrainingCase& c, const std::string& type, std::int64_t ep) {
  c.model = fmt::format("small {} of 4 layers", type);
  c.config = small_expert_model(type, 4);
  c.vocab_size = 0;
  c.distributed.sizes.ep_size = ep;
  c.dtype = DType::F64;
  c.layout += fmt::format(" ep {}", ep);
}

/// Any composition of everything, a function of its number. By hand: --gtest_filter='*RandomComposition*/17'.
TrainingCase random_case(int number) {
  std::mt19937 random(static_cast<unsigned>(number) * 7919U + static_cast<unsigned>(backend().world_size()));
  const auto one_of = [&](const auto& values) { return values[std::uniform_int_distribution<std::size_t>(0, std::size(values) - 1)(random)]; };
  TrainingCase c = one_of(splits(one_of(golden_models())));
  std::int64_t dp = backend().world_size() / (c.distributed.sizes.tp_size * c.distributed.sizes.cp_size);
  c.accumulation = one_of(std::array{1, 2, 3});
  if (dp % 2 == 0 && one_of(std::array{false, true})) {
    const std::int64_t pp = dp % 4 == 0 ? one_of(std::array{2, 4}) : 2;
    cut_into_stages(c, pp, one_of(pp == 2 ? kAnySchedule : kOneStageEach), one_of(std::array{2, 3}) * pp);
    dp /= pp;
  }
  const bool pipeline = c.distributed.sizes.pp_size > 1;
  if (!pipeline && !c.distributed.sequence_parallel && one_of(std::array{false, false, true})) {
    c.distributed.strategy = config::Strategy::MegatronFsdp;
    c.distributed.megatron_fsdp.zero_dp_strategy = one_of(std::array{0, 1, 2, 3});
    c.layout = fmt::format("zero-{}{}", c.distributed.megatron_fsdp.zero_dp_strategy, c.layout.substr(5));
  } else if (dp % 2 == 0 && dp > 2 && one_of(std::array{false, true})) {
    c.distributed.sizes.dp_replicate_size = 2;
    c.layout += " hybrid 2";
  }
  c.distributed.enable_async_tensor_parallel = c.distributed.sequence_parallel && one_of(std::array{false, true});
  c.checkpointing = one_of(std::array{ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective});
  if (c.distributed.strategy == config::Strategy::MegatronFsdp && c.checkpointing == ActivationCheckpointing::Selective)
    c.checkpointing = ActivationCheckpointing::Full;
  if (c.checkpointing == ActivationCheckpointing::Full && one_of(std::array{false, true})) {
    c.distributed.activation_checkpointing = config::ActivationCheckpointing::Full;
    c.distributed.offload_activations = true;
  }
  c.packed = one_of(std::array{false, true});
  c.dropout = one_of(std::array{false, false, true});
  c.vocab_size = one_of(std::array{0, 0, 323});
  c.dtype = one_of(std::array{DType::F64, DType::F32});
  if (c.distributed.strategy == config::Strategy::Fsdp2 && one_of(std::array{false, true})) {
    const std::int64_t shards = dp / c.distributed.sizes.dp_replicate_size * c.distributed.sizes.cp_size;
    std::vector<std::int64_t> fitting;
    for (const std::int64_t ep : {1, 2, 4, 8})
      if (shards % ep == 0) fitting.push_back(ep);
    give_experts(c, one_of(std::array{"qwen3_moe", "deepseek_v3"}), one_of(fitting));
    c.distributed.moe.emplace().reshard_after_forward = one_of(std::array{false, true});
  }
  c.weight_tolerance = 1e-3;  // of whatever model and vocabulary came out; fp64 is strict
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
