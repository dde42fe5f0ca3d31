#include "tessera/parallel/pipeline/stage_split.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "parallel_pipeline/small_table.h"
#include "tessera/core/error.h"

namespace tessera::pipeline {
namespace {

using test::small_table;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> sizes(const std::vector<UnitRange>& stages) {
  std::vector<int> result;
  for (const UnitRange& stage : stages) result.push_back(stage.end - stage.first);
  return result;
}

double dearest(const std::vector<double>& costs, const std::vector<UnitRange>& stages) {
  double most = 0;
  for (const UnitRange& stage : stages) {
    double cost = 0;
    for (int unit = stage.first; unit < stage.end; ++unit) cost += costs[static_cast<std::size_t>(unit)];
    most = std::max(most, cost);
  }
  return most;
}

TEST(StageSplit, TheHeadWeighsAsItsMatrixAndTheEmbeddingAsARow) {
  EXPECT_THAT(unit_costs(small_table(2, false)), ElementsAre(8, 192, 192, 808));
  EXPECT_THAT(unit_costs(small_table(2, true)), ElementsAre(8, 192, 192, 808));
}

TEST(StageSplit, ExpertsWeighAsTheirShareOfTheTokens) {
  model::ParameterTable table = small_table(2, false);
  table.parameters[1].share_of_tokens = 0.25;
  const std::vector<double> dense = unit_costs(small_table(2, false)), routed = unit_costs(table);
  EXPECT_DOUBLE_EQ(dense[1] - routed[1], 0.75 * static_cast<double>(table.parameters[1].shape[0] * table.parameters[1].shape[1]));
}

TEST(StageSplit, EqualBlocksAreSpreadEvenly) {
  EXPECT_THAT(split_units({0, 1, 1, 1, 1, 0}, 2), ElementsAre(UnitRange{0, 3}, UnitRange{3, 6}));
  const auto uneven = split_units({0, 1, 1, 1, 1, 1, 1, 1, 0}, 3);
  std::vector<int> counts = sizes(uneven);
  counts.front() -= 1;
  counts.back() -= 1;
  std::ranges::sort(counts);
  EXPECT_THAT(counts, ElementsAre(2, 2, 3));
}

TEST(StageSplit, ADearHeadLeavesItsStageFewerBlocks) {
  // 1 | 2 with a head of three blocks; the head alone when it weighs more than all that could go with it.
  EXPECT_THAT(split_units({0, 1, 1, 1, 1, 1, 3}, 2), ElementsAre(UnitRange{0, 5}, UnitRange{5, 7}));
  EXPECT_THAT(split_units({0, 1, 1, 1, 1, 4}, 2), ElementsAre(UnitRange{0, 5}, UnitRange{5, 6}));
  EXPECT_THAT(split_units({0, 1, 1, 1, 1, 4}, 2, {.head_alone = false}), ElementsAre(UnitRange{0, 4}, UnitRange{4, 6}));
}

TEST(StageSplit, LimitsAreKept) {
  EXPECT_THAT(sizes(split_units({0, 1, 1, 1, 1, 9}, 2, {.fewest = 2, .most = 2, .head_alone = false})), ElementsAre(3, 3));
  EXPECT_THAT(split_units({0, 1, 1, 1}, 4), IsEmpty());
  EXPECT_THAT(sizes(split_units({0, 1, 1, 1}, 3)), ElementsAre(2, 1, 1));
  EXPECT_THAT(split_units({0, 1, 1, 1, 0}, 2, {.fewest = 2, .most = 2}), IsEmpty());
}

// Every split of up to eight units, tried in turn.
TEST(StageSplit, NoSplitIsCheaper) {
  const std::vector<double> costs{0.5, 3, 1, 4, 1, 5, 2, 6};
  for (int num_stages = 1; num_stages <= 7; ++num_stages) {
    double least = 1e9;
    for (unsigned cuts = 0; cuts < 128; ++cuts) {  // bit i: a cut behind unit i
      if (__builtin_popcount(cuts) != num_stages - 1 || (cuts & 1U) != 0) continue;
      std::vector<UnitRange> stages{{0, 0}};
      for (int unit = 0; unit < 8; ++unit) {
        stages.back().end = unit + 1;
        if ((cuts >> unit & 1U) != 0) stages.push_back({unit + 1, unit + 1});
      }
      least = std::min(least, dearest(costs, stages));
    }
    const auto stages = split_units(costs, num_stages);
    ASSERT_EQ(static_cast<int>(stages.size()), num_stages);
    EXPECT_DOUBLE_EQ(dearest(costs, stages), least) << num_stages;
  }
}

TEST(StageSplit, StagesInWords) {
  EXPECT_EQ(describe({0, 5}, 10), "embedding, layers 0-3");
  EXPECT_EQ(describe({5, 6}, 10), "layer 4");
  EXPECT_EQ(describe({8, 10}, 10), "layer 7, head");
  EXPECT_EQ(describe({9, 10}, 10), "head");
  EXPECT_EQ(describe({0, 10}, 10), "embedding, layers 0-7, head");
}

std::string errors(const std::vector<std::vector<std::string>>& modules, bool tied = false) {
  ProblemList problems;
  split_by_modules(modules, small_table(3, tied), "recipe.yaml:9", problems);
  return problems.empty() ? "" : UserError(problems.problems()).what();
}

TEST(ModuleSplit, NamesWithAndWithoutThePrefix) {
  ProblemList problems;
  const auto stages = split_by_modules({{"model.embed_tokens", "model.layers.0", "model.rotary_emb"}, {"layers.1", "layers.2", "norm", "lm_head"}},
                                       small_table(3, false), "", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_THAT(stages, ElementsAre(UnitRange{0, 2}, UnitRange{2, 5}));
  EXPECT_EQ(errors({{"model.embed_tokens", "model.layers.0"}, {"layers.1", "layers.2", "norm", "lm_head"}}, true), "");
}

TEST(ModuleSplit, EveryMistakeIsNamed) {
  const std::string error =
      errors({{"model.embed_tokens", "model.layers.0", "model.layers.0", "model.norm"}, {"model.layrs.1", "model.layers.2", "lm_head"}});
  EXPECT_THAT(error, AllOf(HasSubstr("recipe.yaml:9: distributed.pipeline.module_fqns_per_model_part: module \"model.layers.0\" twice"),
                           HasSubstr("unknown module \"model.layrs.1\""), HasSubstr("did you mean"),
                           HasSubstr("lm_head and model.norm on stages 0 and 1"), HasSubstr("model.layers.1 on no stage")));
  EXPECT_THAT(errors({{"embed_tokens", "layers.1"}, {"layers.0", "layers.2", "norm", "lm_head"}}),
              HasSubstr("model.layers.1 on stage 0 comes after a later stage's"));
  EXPECT_THAT(errors({{"embed_tokens", "layers.0", "layers.1", "layers.2", "norm", "lm_head"}, {}}), HasSubstr("stage 1 is empty"));
}

}  // namespace
}  // namespace tessera::pipeline
