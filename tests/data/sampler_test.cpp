#include "tessera/data/sampler.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "support/support.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

std::vector<std::int64_t> order_of(std::int64_t num_samples, bool shuffle, std::uint64_t seed, std::int64_t epoch) {
  const EpochOrder order(num_samples, shuffle, seed, epoch);
  std::vector<std::int64_t> indices;
  for (std::int64_t position = 0; position < num_samples; ++position) indices.push_back(order[position]);
  return indices;
}

TEST(EpochOrder, HoldsEverySampleOnce) {
  for (std::int64_t num_samples = 1; num_samples < 300; ++num_samples) {
    auto indices = order_of(num_samples, true, 7, 3);
    std::sort(indices.begin(), indices.end());
    for (std::int64_t index = 0; index < num_samples; ++index) ASSERT_EQ(indices[static_cast<std::size_t>(index)], index) << num_samples;
  }
}

TEST(EpochOrder, IsTheIdentityWithoutShuffle) { EXPECT_EQ(order_of(4, false, 7, 3), (std::vector<std::int64_t>{0, 1, 2, 3})); }

TEST(EpochOrder, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(order_of(100, true, 7, 3), order_of(100, true, 7, 3));
  EXPECT_NE(order_of(100, true, 7, 3), order_of(100, true, 8, 3));
  EXPECT_NE(order_of(100, true, 7, 3), order_of(100, true, 7, 4));
}

TEST(EpochOrder, ReachesABillionSamplesAtOnce) {
  const std::int64_t num_samples = 1'000'000'007;
  const EpochOrder order(num_samples, true, 1, 0);
  std::set<std::int64_t> seen;
  for (std::int64_t position = 0; position < 1000; ++position) {
    const std::int64_t index = order[position * 999'983];
    ASSERT_TRUE(index >= 0 && index < num_samples);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(SampleOrder, GroupsHoldSamplesOfLikeLength) {
  const std::vector<std::int32_t> lengths = {5, 1, 9, 5, 7, 2, 8};
  const auto groups = std::make_shared<LengthGroups>(group_by_length(lengths, 2));
  EXPECT_EQ(groups->by_length, (std::vector<std::int64_t>{2, 6, 4, 0, 3, 5, 1}));
  const std::set<std::vector<std::int64_t>> full = {{2, 6}, {4, 0}, {3, 5}};
  std::set<std::vector<std::vector<std::int64_t>>> orders;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const SampleOrder order(groups, 7, true, 1, epoch);
    std::vector<std::vector<std::int64_t>> steps;
    for (std::int64_t step = 0; step < 3; ++step) steps.push_back({order[2 * step], order[2 * step + 1]});
    EXPECT_EQ(std::set(steps.begin(), steps.end()), full);
    EXPECT_EQ(order[6], 1);  // the group that is not full
    orders.insert(steps);
  }
  EXPECT_EQ(orders.size(), 6U);  // all orders of three groups
}

/// Every order of five samples comes up about equally often over the epochs: chi-square with 119 degrees of freedom, 99.99 % point 185.
TEST(EpochOrder, OrdersOfASmallDatasetAreEquallyLikely) {
  const int epochs = 24'000;
  std::map<std::vector<std::int64_t>, int> counts;
  for (int epoch = 0; epoch < epochs; ++epoch) ++counts[order_of(5, true, 42, epoch)];
  ASSERT_EQ(counts.size(), 120U);
  double chi_square = 0.0;
  for (const auto& [order, count] : counts) chi_square += (count - 200.0) * (count - 200.0) / 200.0;
  EXPECT_LT(chi_square, 185.0);
}

/// Neighbours in the dataset are not neighbours in the order more often than chance: 2/n of the pairs.
TEST(EpochOrder, ScattersNeighbours) {
  const std::int64_t num_samples = 10'000;
  int neighbours = 0;
  double displacement = 0.0;
  const auto indices = order_of(num_samples, true, 42, 0);
  for (std::size_t position = 1; position < indices.size(); ++position) {
    neighbours += std::abs(indices[position] - indices[position - 1]) == 1;
    displacement += static_cast<double>(std::abs(indices[position] - static_cast<std::int64_t>(position)));
  }
  EXPECT_LT(neighbours, 12);
  EXPECT_NEAR(displacement / static_cast<double>(num_samples), static_cast<double>(num_samples) / 3.0, 150.0);
}

/// The positions a whole epoch hands out, step by step, in the order (step, rank, microbatch).
std::vector<std::int64_t> positions_of_epoch(const StepShape& shape, DataPosition start) {
  std::vector<std::int64_t> positions;
  for (DataPosition at = start; at.epoch == start.epoch;) {
    const StepPlan plan = plan_step(shape, at);
    EXPECT_EQ(plan.first, at.consumed);
    for (std::int64_t rank = 0; rank < shape.dp_size; ++rank) {
      for (std::int64_t microbatch = 0; microbatch < plan.num_microbatches; ++microbatch) {
        const PositionRange range = microbatch_positions(shape, plan, rank, microbatch);
        EXPECT_LE(range.end - range.begin, shape.local_batch_size);
        for (std::int64_t position = range.begin; position < range.end; ++position) positions.push_back(position);
      }
    }
    at = plan.after;
  }
  return positions;
}

TEST(PlanStep, EveryPositionOnceAtAnyDataParallelSize) {
  for (const std::int64_t dp_size : {1, 2, 3, 4, 6}) {
    for (const std::int64_t local_batch_size : {1, 2}) {
      for (std::int64_t num_samples = 1; num_samples < 40; ++num_samples) {
        const StepShape shape{num_samples, 12, local_batch_size, dp_size, false};
        const auto positions = positions_of_epoch(shape, {});
        ASSERT_EQ(positions.size(), static_cast<std::size_t>(num_samples));
        for (std::int64_t position = 0; position < num_samples; ++position) ASSERT_EQ(positions[static_cast<std::size_t>(position)], position);
      }
    }
  }
}

TEST(PlanStep, StepsDoNotDependOnDataParallelSize) {
  DataPosition at;
  for (int step = 0; step < 20; ++step) {
    const StepPlan alone = plan_step({50, 12, 1, 1, false}, at);
    const StepPlan four = plan_step({50, 12, 3, 4, false}, at);
    EXPECT_EQ(alone.first, four.first);
    EXPECT_EQ(alone.count, four.count);
    EXPECT_EQ(alone.after, four.after);
    at = alone.after;
  }
  EXPECT_EQ(at, (DataPosition{4, 0}));
}

TEST(PlanStep, FullStepsAreContiguousPerRank) {
  const StepShape shape{100, 12, 2, 3, false};
  const StepPlan plan = plan_step(shape, {0, 12});
  EXPECT_EQ(plan.num_microbatches, 2);
  EXPECT_EQ(microbatch_positions(shape, plan, 1, 0).begin, 16);
  EXPECT_EQ(microbatch_positions(shape, plan, 1, 1).begin, 18);
  EXPECT_EQ(microbatch_positions(shape, plan, 1, 1).end, 20);
}

TEST(PlanStep, ShortStepIsSpreadEvenly) {
  const StepShape shape{14, 12, 1, 4, false};
  const StepPlan plan = plan_step(shape, {0, 12});
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.num_microbatches, 1);
  EXPECT_TRUE(plan.ends_epoch);
  EXPECT_EQ(microbatch_positions(shape, plan, 1, 0).end, 14);
  const PositionRange none = microbatch_positions(shape, plan, 2, 0);
  EXPECT_EQ(none.begin, none.end);
}

TEST(PlanStep, DropLastRunsFullStepsOnly) {
  const StepShape shape{30, 12, 1, 1, true};
  EXPECT_EQ(steps_per_epoch(shape), 2);
  const StepPlan second = plan_step(shape, {0, 12});
  EXPECT_TRUE(second.ends_epoch);
  EXPECT_EQ(second.after, (DataPosition{1, 0}));
  // Stopped by a run with a smaller step where nothing full is left.
  EXPECT_EQ(plan_step(shape, {0, 24}).epoch, 1);
}

TEST(PlanStep, CountsStepsOfAnEpoch) {
  EXPECT_EQ(steps_per_epoch({24, 12, 1, 1, false}), 2);
  EXPECT_EQ(steps_per_epoch({25, 12, 1, 1, false}), 3);
}

TEST(CheckStepShape, SaysWhatDoesNotFit) {
  EXPECT_THAT(test::error_of([] { check_step_shape({100, 10, 2, 4, false}); }),
              HasSubstr("global_batch_size: 10 is not a multiple of local_batch_size × data-parallel size (2 × 4)"));
  EXPECT_THAT(test::error_of([] { check_step_shape({100, 10, 2, 4, false}); }), HasSubstr("use global_batch_size 16"));
  EXPECT_THAT(test::error_of([] { check_step_shape({100, 0, -1, 1, false}); }), HasSubstr("local_batch_size is -1"));
  EXPECT_THAT(test::error_of([] { check_step_shape({5, 8, 1, 1, true}); }), HasSubstr("drop_last leaves nothing"));
}

}  // namespace
}  // namespace tessera::data
