#include "tessera/checkpoint/compare.h"

#include <gmock/gmock.h>

#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"
#include "tessera/checkpoint/consolidate.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::SmallRun;
using test::TemporaryDirectory;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CompareTest, LayoutsDoNotMatter) {
  const TemporaryDirectory directory;
  SmallRun run(DType::BF16);
  run.train(2);
  const fs::path whole = test::save(directory / "whole", run.request(2));
  test::run_forked(3, [&](comm::Communicator& group) -> std::int64_t {
    SmallRun part(DType::BF16, nullptr, {.num_shards = 3, .shard = group.rank()});
    part.train(2);
    test::UnsyncedOperations operations;
    CheckpointDirectory(operations, directory / "parts", {}, group).save(part.request(2));
    return 0;
  });
  const Differences differences = compare(whole, directory / "parts/epoch_0_step_2");
  EXPECT_TRUE(differences.same());
  EXPECT_EQ(differences.num_tensors, 6u * 4u);  // weights, masters, two moments
  std::uint64_t bytes = 0;
  compare(whole, directory / "parts/epoch_0_step_2", [&](std::uint64_t more) { bytes += more; });
  EXPECT_EQ(bytes, bytes_to_compare(whole, directory / "parts/epoch_0_step_2"));
}

TEST(CompareTest, FindsOneChangedElementAndTheState) {
  const TemporaryDirectory directory;
  SmallRun run;
  run.train(2);
  const fs::path a = test::save(directory / "a", run.request(2));
  run.store.parameter("norm.weight").weight[3] += 0.5;
  SaveRequest request = run.request(3);
  request.state.losses = {{"train_loss", 2.0}};
  const Differences differences = compare(a, test::save(directory / "b", request));
  ASSERT_EQ(differences.values.size(), 1u);
  EXPECT_EQ(differences.values[0].name, "model.norm.weight");
  EXPECT_EQ(differences.values[0].num_elements, 5u);
  EXPECT_EQ(differences.values[0].num_different, 1u);
  EXPECT_NEAR(differences.values[0].largest, 0.5, 1e-6);
  EXPECT_THAT(differences.structure, IsEmpty());
  EXPECT_THAT(differences.state, ElementsAre("step: 2 in A, 3 in B", HasSubstr("loader.json"), HasSubstr("losses.json: {\"train_loss\":1.0}")));
}

TEST(CompareTest, ACheckpointAndAModelByWeightsAlone) {
  const TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  const SmallRun run(DType::BF16);
  const fs::path a = test::save(directory / "a", run.request(1));
  consolidate(*operations, a, directory / "model", {}, test::alone());
  EXPECT_TRUE(compare(a, directory / "model").same());
  EXPECT_EQ(compare(directory / "model", a).num_tensors, 6u);
  consolidate(*operations, a, directory / "wide", {.dtype = DType::F32}, test::alone());
  EXPECT_THAT(compare(a, directory / "wide").structure, Contains("model.norm.weight is BF16 [5] in A, F32 [5] in B"));
}

}  // namespace
}  // namespace tessera::checkpoint
