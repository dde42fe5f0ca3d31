// Every rule about splitting the work, with sizes that keep it and sizes that break it.
#include "tessera/config/parallelism.h"

#include <gmock/gmock.h>

#include "config/section_recipe.h"
#include "support/support.h"
#include "tessera/config/recipe.h"

namespace tessera::config {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A recipe whose first line is `distributed`, other lines after it.
LoadedRecipe recipe(const std::string& distributed, const std::string& lines = "") {
  return load_recipe(
      parse_yaml("distributed: " + distributed + "\n" + lines + "\nmodel: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\n", "r.yaml"),
      no_variables);
}

void validate(const LoadedRecipe& loaded, std::int64_t world_size, ProblemList& problems) {
  validate_parallelism(loaded.recipe.distributed, world_size, locate_in(loaded.tree), problems);
  validate_packing(loaded, problems);
  if (const auto dp_size = data_parallel_size(loaded.recipe.distributed.sizes, world_size)) validate_batch_sizes(loaded, *dp_size, problems);
}

std::vector<std::string> violations(const std::string& distributed, std::int64_t world_size, const std::string& lines = "") {
  ProblemList problems;
  // A step that any number of ranks in these tests divides.
  validate(recipe(distributed, lines + "\nstep_scheduler: {global_batch_size: 55440, local_batch_size: 1}"), world_size, problems);
  std::vector<std::string> texts;
  for (const Problem& problem : problems.problems()) texts.push_back(to_string(problem));
  return texts;
}

TEST(Parallelism, OneRankSplitsNothing) {
  for (const char* strategy : {"fsdp2", "ddp", "megatron_fsdp"}) EXPECT_THAT(violations("{strategy: " + std::string(strategy) + "}", 1), IsEmpty());
  EXPECT_THAT(violations("{dp_size: 8}", 1), ElementsAre("error: r.yaml:1: distributed.dp_size: 8 is not what 1 rank leave, 1\n"
                                                         "  rule: dp_size = world_size / (tp_size · pp_size · cp_size)\n"
                                                         "  fix:  use 1, leave dp_size out, or start 8 ranks (--nproc-per-node)"));
}

TEST(Parallelism, TheOtherAxesDivideTheRanks) {
  EXPECT_THAT(violations("{tp_size: 2, cp_size: 3}", 12), IsEmpty());
  EXPECT_THAT(violations("{tp_size: 2, cp_size: 3}", 8),
              ElementsAre("error: r.yaml:1: distributed.tp_size: tp_size · pp_size · cp_size (2 · 1 · 3) does not divide the number of ranks, 8\n"
                          "  rule: world_size = dp_size · tp_size · pp_size · cp_size\n"
                          "  fix:  start 6 or 12 ranks (--nproc-per-node), or choose other sizes"));
  EXPECT_THAT(violations("{cp_size: 4}", 2), ElementsAre(HasSubstr("start 4 ranks")));
  EXPECT_THAT(violations("{pp_size: 3, pipeline: {}}", 4), ElementsAre(HasSubstr("distributed.pp_size: ")));
}

TEST(Parallelism, AGivenDataParallelSizeIsTheInferredOne) {
  EXPECT_THAT(violations("{dp_size: 4, tp_size: 2}", 8), IsEmpty());
  EXPECT_THAT(violations("{dp_size: 8, tp_size: 2}", 8),
              ElementsAre(AllOf(HasSubstr("dp_size: 8 is not what 8 ranks leave, 4"), HasSubstr("use 4, leave dp_size out, or start 16 ranks"))));
}

TEST(Parallelism, ReplicasDivideAndAreFewer) {
  EXPECT_THAT(violations("{dp_replicate_size: 2}", 8), IsEmpty());
  EXPECT_THAT(violations("{dp_replicate_size: 3}", 8), ElementsAre(AllOf(HasSubstr("3 does not divide dp_size (8)"), HasSubstr("use 1, 2 or 4"))));
  EXPECT_THAT(violations("{dp_replicate_size: 2, tp_size: 4}", 8),
              ElementsAre(AllOf(HasSubstr("2 leaves no shards: dp_size is 2"), HasSubstr("or strategy ddp"))));
  EXPECT_THAT(violations("{dp_replicate_size: 2}", 1),
              ElementsAre(AllOf(HasSubstr("does not divide dp_size (1)"), HasSubstr("leave it out, or start more ranks"))));
}

TEST(Parallelism, OnlyFsdp2HasReplicas) {
  for (const char* strategy : {"ddp", "megatron_fsdp"}) {
    const std::string begin = "{strategy: " + std::string(strategy) + ", dp_replicate_size: ";
    EXPECT_THAT(violations(begin + "1}", 8), IsEmpty());
    EXPECT_THAT(violations(begin + "2}", 8),
                ElementsAre(AllOf(HasSubstr("dp_replicate_size: 2 does not go with the strategy"), HasSubstr("rule: only fsdp2"))));
  }
}

TEST(Parallelism, DdpSplitsNothingElse) {
  EXPECT_THAT(violations("{strategy: ddp, tp_size: 1, cp_size: 1, pp_size: 1, ep_size: 1}", 6), IsEmpty());
  EXPECT_THAT(violations("{strategy: ddp, tp_size: 2, cp_size: 2, pp_size: 2, ep_size: 2, pipeline: {}, sequence_parallel: true}", 8),
              ElementsAre(HasSubstr("tp_size: 2 does not go with the strategy"), HasSubstr("pp_size: 2"), HasSubstr("cp_size: 2"),
                          HasSubstr("ep_size: 2"), HasSubstr("sequence_parallel: true")));
}

TEST(Parallelism, MegatronFsdpHasNoPipelineExpertsNorSequences) {
  EXPECT_THAT(violations("{strategy: mfsdp, tp_size: 2, cp_size: 2, sequence_parallel: false, activation_checkpointing: true}", 8), IsEmpty());
  EXPECT_THAT(violations("{strategy: megatron-fsdp, pp_size: 2, pipeline: {}, ep_size: 2, sequence_parallel: true, "
                         "activation_checkpointing: selective}",
                         8),
              ElementsAre(HasSubstr("pp_size: 2"), HasSubstr("ep_size: 2"), HasSubstr("sequence_parallel: true"),
                          HasSubstr("activation_checkpointing: selective")));
  EXPECT_THAT(violations("{activation_checkpointing: selective}", 2), IsEmpty());
}

TEST(Parallelism, APipelineNeedsItsSection) {
  EXPECT_THAT(violations("{pp_size: 2, pipeline: {}}", 4), IsEmpty());
  EXPECT_THAT(violations("{pp_size: 2}", 4), ElementsAre(AllOf(HasSubstr("pp_size: 2 needs a pipeline section"), HasSubstr("add pipeline: {}"))));
}

TEST(Parallelism, ExpertsDivideDataAndContext) {
  EXPECT_THAT(violations("{ep_size: 8, cp_size: 2}", 8), IsEmpty());
  EXPECT_THAT(violations("{ep_size: 3, cp_size: 2}", 8),
              ElementsAre(AllOf(HasSubstr("3 does not divide dp_size · cp_size (8)"), HasSubstr("use 1, 2, 4 or 8"))));
  EXPECT_THAT(violations("{ep_size: 4, dp_replicate_size: 2}", 8), IsEmpty());
  EXPECT_THAT(violations("{ep_size: 8, dp_replicate_size: 2}", 8),
              ElementsAre(HasSubstr("8 does not divide dp_size / dp_replicate_size · cp_size (4)")));
}

TEST(Parallelism, AsynchronousTensorParallelismNeedsSequences) {
  EXPECT_THAT(violations("{tp_size: 2, enable_async_tensor_parallel: true, sequence_parallel: true}", 2), IsEmpty());
  EXPECT_THAT(violations("{tp_size: 2, enable_async_tensor_parallel: true}", 2), ElementsAre(HasSubstr("add sequence_parallel: true")));
}

TEST(Parallelism, PacksDivideByContext) {
  EXPECT_THAT(violations("{cp_size: 4}", 4, "packed_sequence: {packed_sequence_size: 64}"), IsEmpty());
  EXPECT_THAT(
      violations("{cp_size: 4}", 4, "packed_sequence: {packed_sequence_size: 66}"),
      ElementsAre(AllOf(HasSubstr("r.yaml:2: packed_sequence.packed_sequence_size: 66 is not a multiple of cp_size (4)"), HasSubstr("64 or 68"))));
}

TEST(Parallelism, BatchesAreCountedOverDataParallelRanksOnly) {
  const auto problems = [](const std::string& distributed, std::int64_t world_size) {
    ProblemList found;
    validate(recipe(distributed, "step_scheduler: {global_batch_size: 8, local_batch_size: 2}"), world_size, found);
    return found.problems().size();
  };
  EXPECT_EQ(problems("{}", 4), 0U);
  EXPECT_EQ(problems("{}", 8), 1U);
  EXPECT_EQ(problems("{tp_size: 2}", 8), 0U);
}

TEST(Parallelism, AllViolationsComeTogether) {
  EXPECT_THAT(violations("{strategy: fsdp2, dp_size: 3, dp_replicate_size: 3, ep_size: 5, pp_size: 2, enable_async_tensor_parallel: true}", 8),
              ElementsAre(HasSubstr("dp_size: 3 is not"), HasSubstr("dp_replicate_size: 3"), HasSubstr("pp_size: 2"),
                          HasSubstr("enable_async_tensor_parallel")));
}

/// A number of ranks that nothing divides hides nothing about packs.
TEST(Parallelism, PacksAreJudgedWhateverTheRanks) {
  EXPECT_THAT(violations("{tp_size: 3}", 4, "packed_sequence: {packed_sequence_size: 64}\ndataloader: {batch_size: 2}"),
              ElementsAre(HasSubstr("does not divide the number of ranks"), HasSubstr("dataloader.batch_size: 2 does not go with packed_sequence")));
}

TEST(Parallelism, WithoutARecipeThereIsNoPlace) {
  ProblemList problems;
  validate_parallelism({.strategy = Strategy::Ddp, .sizes = {.tp_size = 2}}, 2, nullptr, problems);
  ASSERT_EQ(problems.problems().size(), 1U);
  EXPECT_EQ(problems.problems()[0].where, "");
}

std::vector<std::string> violations(const Distributed& distributed, const ModelSizes& model) {
  ProblemList problems;
  validate_model_split(distributed, model, nullptr, problems);
  std::vector<std::string> texts;
  for (const Problem& problem : problems.problems()) texts.push_back(problem.what + "; " + problem.fix);
  return texts;
}

TEST(Parallelism, RanksHoldEquallyManyExperts) {
  const auto of = [](std::int64_t ep, std::int64_t experts) { return violations({.sizes = {.ep_size = ep}}, {.num_experts = experts}); };
  EXPECT_THAT(of(1, 0), testing::IsEmpty());
  EXPECT_THAT(of(4, 8), testing::IsEmpty());
  EXPECT_THAT(of(3, 8), ElementsAre("distributed.ep_size: 3 does not divide the number of experts (8); use 1, 2, 4 or 8"));
  EXPECT_THAT(of(2, 0), ElementsAre("distributed.ep_size: 2 needs a model with experts; use ep_size 1"));
}

std::vector<std::string> head_violations(std::int64_t tp, std::int64_t heads, std::int64_t key_value_heads) {
  return violations({.sizes = {.tp_size = tp}}, {heads, key_value_heads, 24});
}

TEST(Heads, AreWhole) {
  for (const std::int64_t tp : {1, 2, 4, 8}) EXPECT_THAT(head_violations(tp, 8, 2), IsEmpty()) << tp;  // 4 and 8 ranks share key/value heads
  EXPECT_THAT(head_violations(3, 8, 8), ElementsAre("distributed.tp_size: 3 does not divide num_attention_heads (8); use 1, 2, 4 or 8"));
  EXPECT_THAT(head_violations(4, 12, 6),
              ElementsAre(AllOf(HasSubstr("4 does not divide num_key_value_heads (6)"), HasSubstr("use 1, 2, 3, 6 or 12"))));
}

TEST(Parallelism, OnlyInputsOfBlocksThatRunAgainAreOffloaded) {
  const auto problems_with = [](ActivationCheckpointing checkpointing) {
    ProblemList problems;
    validate_parallelism({.activation_checkpointing = checkpointing, .offload_activations = true}, 1, nullptr, problems);
    return problems.problems().size();
  };
  EXPECT_EQ(problems_with(ActivationCheckpointing::None), 1U);
  EXPECT_EQ(problems_with(ActivationCheckpointing::Selective), 1U);
  EXPECT_EQ(problems_with(ActivationCheckpointing::Full), 0U);
}

TEST(Heads, TheFeedForwardIsCutEvenly) {
  EXPECT_THAT(violations({.sizes = {.tp_size = 4}}, {8, 8, 30}),
              ElementsAre("distributed.tp_size: 4 does not divide intermediate_size (30); use 1 or 2"));
}

TEST(Heads, AreWholeWhenTokensAreExchangedForThem) {
  const auto all_to_all = [](std::int64_t tp, std::int64_t cp, const ModelSizes& model) {
    return violations({.sizes = {.tp_size = tp, .cp_size = cp}, .cp_attention = CpAttention::AllToAll}, model);
  };
  EXPECT_THAT(all_to_all(1, 4, {8, 2, 16}), IsEmpty());
  EXPECT_THAT(all_to_all(2, 4, {8, 2, 16}), IsEmpty());
  EXPECT_THAT(all_to_all(4, 4, {8, 2, 16}),
              ElementsAre(AllOf(HasSubstr("cp_attention: all_to_all does not go with cp_size 4"), HasSubstr("1 or 2"))));
  EXPECT_THAT(violations({.sizes = {.cp_size = 3}}, {8, 2, 16}), IsEmpty());
}

}  // namespace
}  // namespace tessera::config
