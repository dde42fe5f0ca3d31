// What a recipe's pipeline may ask for is decided before anything is allocated.
#include <gmock/gmock.h>

#include "tessera/train/examine.h"
#include "tessera/train/memory_plan.h"
#include "train/small_recipe.h"

namespace tessera::train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Examination examine_with(std::vector<std::string> overrides, std::int64_t num_ranks) {
  const tessera::test::TemporaryDirectory directory;
  for (const char* const more : {"--model.config.n_layer=4", "--step_scheduler.global_batch_size=16", "--distributed.strategy=fsdp2"})
    overrides.emplace_back(more);
  return examine(test::load_small_recipe(directory.path(), overrides), test::no_variables, num_ranks);
}

std::vector<std::string> pipeline_problems(const std::vector<std::string>& overrides, std::int64_t num_ranks) {
  std::vector<std::string> texts;
  for (const Problem& problem : examine_with(overrides, num_ranks).problems) texts.push_back(to_string(problem));
  return texts;
}

TEST(PipelineRules, AllMicrobatchesOfAStepAreInOneSchedule) {
  const Examination examination = examine_with({"--distributed.pp_size=2", "--distributed.pipeline.pp_microbatch_size=2"}, 4);
  EXPECT_THAT(examination.problems, IsEmpty());
  ASSERT_TRUE(examination.pipeline);
  EXPECT_EQ(examination.pipeline->num_microbatches, 4) << "16 rows over 2 data-parallel ranks, 2 to a microbatch";
  EXPECT_THAT(parallel::describe(examination.pipeline->stages, examination.plan->spec),
              ElementsAre("pp 0  stage 0: embedding, layers 0-1", "pp 1  stage 1: layers 2-3, head"));
}

TEST(PipelineRules, AreCheckedUpFront) {
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=2", "--distributed.pipeline.pp_microbatch_size=3"}, 2),
              ElementsAre(HasSubstr("pp_microbatch_size: 3 does not divide local_batch_size (2)")));
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=8", "--distributed.pipeline.pp_schedule=1f1b"}, 8),
              ElementsAre(HasSubstr("8 stages of a model with 4 layers")));
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=4", "--distributed.pipeline.pp_schedule=gpipe", "--distributed.pipeline.layers_per_stage=1",
                                 "--distributed.pipeline.module_fqns_per_model_part=[[lm_head]]"},
                                4),
              Contains(HasSubstr("together with module_fqns_per_model_part")));
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=2", "--distributed.pipeline.scale_grads_in_schedule=true"}, 2),
              ElementsAre(HasSubstr("scale_grads_in_schedule: true is not supported")));
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=2", "--distributed.pipeline.dtype=bfloat16"}, 2),
              ElementsAre(HasSubstr("distributed.pipeline.dtype: bfloat16 is not supported")));
  EXPECT_THAT(pipeline_problems({"--distributed.pp_size=2"}, 2), ElementsAre(HasSubstr("needs a pipeline section")));
}

/// The first rank of 1f1b keeps as many microbatches as there are ranks, the last one; gpipe keeps all at every rank.
TEST(PipelineRules, MemoryIsOfEachRank) {
  const auto activations = [](const std::string& schedule) {
    const Examination examination = examine_with({"--distributed.pp_size=4", "--distributed.pipeline.pp_schedule=" + schedule}, 4);
    EXPECT_THAT(examination.problems, IsEmpty());
    const tessera::test::TemporaryDirectory directory;
    const config::LoadedRecipe loaded =
        test::load_small_recipe(directory.path(), {"--step_scheduler.global_batch_size=16", "--distributed.strategy=fsdp2", "--distributed.pp_size=4",
                                                   "--distributed.pipeline.pp_schedule=" + schedule});
    std::vector<std::int64_t> bytes;
    for (const model::MemoryEstimate& rank :
         memory_plan(loaded.recipe, examination.plan->spec, examination.plan->dtype, *examination.mesh, 1, 32, examination.pipeline))
      bytes.push_back(rank.activations);
    return bytes;
  };
  const std::vector<std::int64_t> one_of_each = activations("1f1b"), all = activations("gpipe");
  ASSERT_EQ(one_of_each.size(), 4U);
  EXPECT_GT(one_of_each[1], one_of_each[2]);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_GT(all[rank], 2 * one_of_each[rank]) << rank;
}

}  // namespace
}  // namespace tessera::train
