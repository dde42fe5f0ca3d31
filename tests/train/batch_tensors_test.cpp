#include "tessera/train/batch_tensors.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

TEST(BatchTensors, CarryEverythingOfTheBatch) {
  const data::Batch batch{.rows = 2,
                          .length = 3,
                          .input_ids = {1, 2, 3, 4, 5, 0},
                          .labels = {2, 3, -100, 5, -100, -100},
                          .position_ids = {0, 1, 0, 0, 1, 2},
                          .lengths = {3, 2},
                          .numbers = {8, -1},
                          .document_starts = {{0, 2}, {0}}};
  const BatchTensors tensors = to_tensors(batch);
  EXPECT_EQ(tensors.inputs.num_rows(), 2);
  EXPECT_EQ(tensors.inputs.length(), 3);
  EXPECT_EQ(tensors.inputs.input_ids_BT[1][1].item<std::int64_t>(), 5);
  EXPECT_EQ(tensors.inputs.position_ids_BT[0][2].item<std::int64_t>(), 0);
  EXPECT_EQ(tensors.labels_BT[1][0].item<std::int64_t>(), 5);
  EXPECT_EQ(tensors.labels_BT.scalar_type(), at::kLong);
  EXPECT_EQ(tensors.inputs.lengths, batch.lengths);
  EXPECT_EQ(tensors.inputs.sample_numbers, batch.numbers);
  EXPECT_EQ(tensors.inputs.document_starts, batch.document_starts);
}

}  // namespace
}  // namespace tessera::train
