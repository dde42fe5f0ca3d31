#include "tessera/parallel/expert/share.h"

#include <gmock/gmock.h>

namespace tessera::parallel {
namespace {

using testing::ElementsAre;

/// Four experts of three rows, each in two checkpoint tensors of two rows and one.
model::ParameterSpec stacked() {
  model::ParameterSpec parameter;
  parameter.name = "layers.0.experts";
  parameter.shape = {4, 3, 5};
  parameter.role = model::Role::Experts;
  for (std::int64_t expert = 0; expert < 4; ++expert) {
    const std::string name = std::to_string(expert);
    parameter.pieces.push_back({.tensor = name + ".gate", .tensor_shape = {2, 5}, .offset = {0, 0}, .size = {2, 5}, .row = expert * 3});
    parameter.pieces.push_back({.tensor = name + ".up", .tensor_shape = {1, 5}, .offset = {0, 0}, .size = {1, 5}, .row = expert * 3 + 2});
  }
  return parameter;
}

model::ParameterTable table_of(const model::ParameterSpec& parameter) {
  model::ParameterTable table;
  table.parameters.resize(1);
  table.parameters[0].name = "norm";
  table.parameters[0].shape = {5};
  table.parameters.push_back(parameter);
  return table;
}

TEST(ExpertShare, EveryRankHasItsOwnExperts) {
  for (const std::int64_t size : {1, 2, 4}) {
    std::vector<std::string> tensors;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      const model::ParameterTable own = expert_parallel_table(table_of(stacked()), {.size = size, .rank = rank});
      EXPECT_EQ(own.parameters[0].shape, std::vector<std::int64_t>{5});
      const model::ParameterSpec& parameter = own.parameters[1];
      EXPECT_THAT(parameter.shape, ElementsAre(4 / size, 3, 5));
      std::int64_t row = 0;
      for (const model::Piece& piece : parameter.pieces) {
        EXPECT_EQ(piece.row, row);
        row += piece.num_rows();
        tensors.push_back(piece.tensor);
      }
    }
    EXPECT_THAT(tensors, ElementsAre("0.gate", "0.up", "1.gate", "1.up", "2.gate", "2.up", "3.gate", "3.up")) << size;
  }
}

// A checkpoint that stacks experts itself: one piece, of which each rank has a box.
TEST(ExpertShare, StackedTensorsAreCutBetweenExperts) {
  model::ParameterSpec parameter = stacked();
  parameter.pieces = {{.tensor = "experts", .tensor_shape = {12, 5}, .offset = {0, 0}, .size = {12, 5}}};
  const model::ParameterTable own = expert_parallel_table(table_of(parameter), {.size = 2, .rank = 1});
  ASSERT_EQ(own.parameters[1].pieces.size(), 1U);
  const model::Piece& piece = own.parameters[1].pieces.front();
  EXPECT_EQ(piece.row, 0);
  EXPECT_THAT(piece.offset, ElementsAre(6, 0));
  EXPECT_THAT(piece.size, ElementsAre(6, 5));
}

TEST(ExpertShare, RowsThatTensorParallelRanksAllHoldFollow) {
  model::ParameterSpec parameter = stacked();
  parameter.replicated = {{.row = 0, .num_rows = 12, .num_holders = 2, .holder = 1, .partial = true}};
  const model::ParameterSpec own = expert_parallel_table(table_of(parameter), {.size = 4, .rank = 2}).parameters[1];
  ASSERT_EQ(own.replicated.size(), 1U);
  EXPECT_EQ(own.replicated.front().num_rows, 3);
  EXPECT_TRUE(own.replicated.front().partial);
}

TEST(ExpertShare, IsPrinted) {
  EXPECT_THAT(describe_experts(8, {.dp_replicate = 2, .dp_shard = 4, .ep = 2}),
              ElementsAre("ep rank 0    experts 0 to 3 of 8", "ep rank 1    experts 4 to 7 of 8",
                          "each lies over ep_shard (2), dp_replicate (2) and, with its tokens split, tp (1)"));
}

}  // namespace
}  // namespace tessera::parallel
