#include "tessera/parallel/pipeline/stage_plan.h"

#include <gmock/gmock.h>

#include "parallel_pipeline/small_table.h"
#include "support/support.h"

namespace tessera::pipeline {
namespace {

using config::Pipeline;
using test::small_table;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const config::Locate kLocate = [](std::string_view key) { return "recipe.yaml:" + std::to_string(key.size()); };

/// A recipe's section with some keys given.
Pipeline section(ScheduleName schedule, std::optional<std::int64_t> layers_per_stage = std::nullopt,
                 std::vector<std::vector<std::string>> module_fqns_per_model_part = {}) {
  Pipeline pipeline;
  pipeline.pp_schedule = schedule;
  pipeline.layers_per_stage = layers_per_stage;
  pipeline.module_fqns_per_model_part = std::move(module_fqns_per_model_part);
  return pipeline;
}

/// Units of each stage, or the problems.
std::string plan(const Pipeline& pipeline, int num_ranks, int num_layers) {
  ProblemList problems;
  const auto stages = plan_stages(pipeline, num_ranks, small_table(num_layers, false), kLocate, problems);
  if (!stages) return UserError(problems.problems()).what();
  EXPECT_TRUE(problems.empty());
  std::string text;
  for (const UnitRange& range : stages->units) text += (text.empty() ? "" : " | ") + describe(range, num_layers + 2);
  return text;
}

// In the small table a head costs as much as 4.2 layers.
TEST(StagePlan, StagesAreSplitByCost) {
  EXPECT_EQ(plan({}, 2, 8), "embedding, layers 0-5 | layers 6-7, head");
  EXPECT_EQ(plan(section(ScheduleName::Interleaved1F1B), 2, 9), "embedding, layers 0-2 | layers 3-5 | layers 6-8 | head");
}

TEST(StagePlan, LayersPerStageCountsBlocks) {
  EXPECT_EQ(plan(section(ScheduleName::OneFOneB, 4), 2, 8), "embedding, layers 0-3 | layers 4-7, head");
  EXPECT_EQ(plan(section(ScheduleName::LoopedBFS, 2), 2, 7), "embedding, layers 0-1 | layers 2-3 | layers 4-5 | layer 6, head");
}

TEST(StagePlan, TheNumberOfStagesIsRounded) {
  // 9 layers by 3 are 3 stages.
  const Pipeline three = section(ScheduleName::InterleavedZeroBubble, 3);
  EXPECT_THAT(plan(three, 2, 9), AllOf(HasSubstr("recipe.yaml:37: distributed.pipeline.layers_per_stage: 3 of 9 layers make 3 stages"),
                                       HasSubstr("a multiple of pp_size (2)"), HasSubstr("round_virtual_stages_to_pp_multiple")));
  Pipeline up = three, down = three;
  up.round_virtual_stages_to_pp_multiple = config::StageRounding::Up;
  down.round_virtual_stages_to_pp_multiple = config::StageRounding::Down;
  EXPECT_EQ(plan(up, 2, 9), "embedding, layers 0-1 | layers 2-4 | layers 5-6 | layers 7-8, head");
  EXPECT_EQ(plan(down, 2, 9), "embedding, layers 0-4 | layers 5-8, head");
  EXPECT_EQ(plan(down, 4, 9), "embedding, layers 0-1 | layers 2-4 | layers 5-6 | layers 7-8, head");  // never below one per rank
}

TEST(StagePlan, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(plan(section(ScheduleName::OneFOneB, 2), 2, 8), HasSubstr("1f1b with 2 stages on each rank"));
  EXPECT_THAT(plan({}, 8, 6), AllOf(HasSubstr("8 stages of a model with 6 layers"), HasSubstr("fewer ranks")));
  EXPECT_EQ(plan({}, 7, 6).find("error"), std::string::npos);  // the head alone
  EXPECT_THAT(plan(section(ScheduleName::OneFOneB, 2, {{"a"}, {"b"}}), 2, 8), HasSubstr("leave one of them out"));
  EXPECT_THAT(plan(section(ScheduleName::OneFOneB, std::nullopt, {{"a"}, {"b"}, {"c"}}), 2, 8), HasSubstr("module_fqns_per_model_part: 3 stages"));
}

TEST(StagePlan, ModulesByName) {
  EXPECT_EQ(plan(section(ScheduleName::OneFOneB, std::nullopt, {{"embed_tokens", "layers.0"}, {"layers.1", "norm", "lm_head"}}), 2, 2),
            "embedding, layer 0 | layer 1, head");
}

TEST(PlanSchedule, IsTheNamedOneOrTheFile) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "s.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  Pipeline pipeline = section(ScheduleName::ZBVZeroBubble);
  ProblemList problems;
  const auto stages = plan_stages(pipeline, 2, small_table(8, true), kLocate, problems);
  ASSERT_TRUE(stages.has_value());
  EXPECT_EQ(stages->placement, v_placement(2));
  EXPECT_EQ(plan_schedule(pipeline, *stages, 3, kLocate, problems), make_schedule(ScheduleName::ZBVZeroBubble, {2, 3, 2}));
  pipeline.pp_schedule_csv = directory / "s.csv";
  const auto from_file = plan_stages(pipeline, 2, small_table(8, true), kLocate, problems);
  ASSERT_TRUE(from_file.has_value());
  EXPECT_EQ(from_file->placement, v_placement(2));
  EXPECT_EQ(from_file->stages_per_rank, 2);
  EXPECT_EQ(plan_schedule(pipeline, *from_file, 1, kLocate, problems)->size(), 2U);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(plan_schedule(pipeline, *from_file, 2, kLocate, problems), std::nullopt);
  EXPECT_THAT(UserError(problems.problems()).what(), HasSubstr("recipe.yaml:36: 0F1 is missing"));
  EXPECT_THAT(plan(pipeline, 3, 8), HasSubstr("has 2 lines for 3 ranks"));
}

TEST(NumPipelineMicrobatches, AllOfAStepAreInOneSchedule) {
  ProblemList problems;
  Pipeline pipeline;
  pipeline.pp_microbatch_size = 2;
  EXPECT_EQ(num_pipeline_microbatches(pipeline, 48, 4, 3, kLocate, problems), 8);
  EXPECT_TRUE(problems.empty());
  pipeline.pp_microbatch_size = 3;
  EXPECT_EQ(num_pipeline_microbatches(pipeline, 48, 4, 3, kLocate, problems), std::nullopt);
  EXPECT_THAT(UserError(problems.problems()).what(), HasSubstr("pp_microbatch_size: 3 does not divide local_batch_size (4)"));
}

}  // namespace
}  // namespace tessera::pipeline
