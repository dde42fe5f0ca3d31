#include "tessera/parallel/pipeline/stage_table.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "parallel_pipeline/small_table.h"

namespace tessera::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Four layers: embedding and 0 | 1 | 2 | 3 and head.
StagePlan four_stages(StagePlacement placement) {
  return {.placement = std::move(placement), .units = {{0, 2}, {2, 3}, {3, 4}, {4, 6}}, .stages_per_rank = 4 / placement.num_ranks};
}

const model::ParameterSpec& embedding(const model::ParameterTable& table) {
  return *std::ranges::find(table.parameters, model::Role::Embedding, &model::ParameterSpec::role);
}

std::vector<std::string> names(const model::ParameterTable& table) {
  std::vector<std::string> result;
  for (const model::ParameterSpec& parameter : table.parameters) result.push_back(parameter.name);
  return result;
}

TEST(StageTable, IsTheParametersOfTheRanksStages) {
  const model::ParameterTable whole = test::small_table(4, false);
  const StagePlan stages = four_stages(loop_placement(2, 2));
  const model::ParameterTable first = stage_table(whole, stages, 0), second = stage_table(whole, stages, 1);
  EXPECT_THAT(names(first), ElementsAre("model.embed_tokens.weight", "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight",
                                        "model.layers.2.self_attn.o_proj.weight", "model.layers.2.mlp.down_proj.weight"));
  EXPECT_EQ(first.num_units, whole.num_units);
  EXPECT_EQ(first.parameters.size() + second.parameters.size(), whole.parameters.size());
  EXPECT_TRUE(first.elsewhere.contains("lm_head.weight"));
  EXPECT_TRUE(first.elsewhere.contains("model.layers.1.mlp.down_proj.weight"));
  EXPECT_FALSE(first.elsewhere.contains("model.layers.2.mlp.down_proj.weight"));
  EXPECT_THAT(tied_ranks(whole, stages), IsEmpty());
}

TEST(StageTable, ATiedEmbeddingIsOnTheRanksOfBothItsUses) {
  const model::ParameterTable whole = test::small_table(4, true);
  const StagePlan stages = four_stages(loop_placement(4, 1));
  EXPECT_THAT(tied_ranks(whole, stages), ElementsAre(0, 3));
  const model::ParameterTable first = stage_table(whole, stages, 0), middle = stage_table(whole, stages, 1), last = stage_table(whole, stages, 3);
  const model::ParameterSpec &looked_up = embedding(first), &head = embedding(last);
  EXPECT_EQ(looked_up.unit, 0);
  EXPECT_EQ(head.unit, whole.num_units - 1);
  EXPECT_TRUE(looked_up.on_two_stages && head.on_two_stages);
  EXPECT_FALSE(first.tied_head) << "there is no head here";
  EXPECT_TRUE(last.tied_head);
  EXPECT_TRUE(first.elsewhere.contains("lm_head.weight"));
  EXPECT_FALSE(middle.tied_head);
  EXPECT_EQ(middle.parameters.size(), 2u);
  EXPECT_EQ(looked_up.replicated.at(0).holder, 0);
  EXPECT_EQ(head.replicated.at(0).holder, 1);
  EXPECT_EQ(head.replicated.at(0).num_holders, 2);
}

TEST(StageTable, BothUsesOnOneRankAreOneTensor) {
  const model::ParameterTable whole = test::small_table(4, true);
  const StagePlan stages = four_stages(v_placement(2));
  EXPECT_THAT(tied_ranks(whole, stages), IsEmpty());
  const model::ParameterTable first = stage_table(whole, stages, 0);
  EXPECT_TRUE(first.tied_head);
  EXPECT_FALSE(embedding(first).on_two_stages);
  EXPECT_FALSE(stage_table(whole, stages, 1).tied_head);
}

/// Two tensor-parallel ranks that both have all rows, on each of two stages: four holders.
TEST(StageTable, HoldersOfTensorParallelismMultiply) {
  model::ParameterTable whole = test::small_table(4, true);
  whole.parameters[0].replicated = {{.row = 0, .num_rows = 100, .num_holders = 2, .holder = 1, .partial = false}};
  const model::ParameterTable last = stage_table(whole, four_stages(loop_placement(4, 1)), 3);
  const model::ParameterSpec& head = embedding(last);
  EXPECT_EQ(head.replicated.at(0).num_holders, 4);
  EXPECT_EQ(head.replicated.at(0).holder, 3);
  EXPECT_FALSE(head.replicated.at(0).partial);
}

}  // namespace
}  // namespace tessera::pipeline
