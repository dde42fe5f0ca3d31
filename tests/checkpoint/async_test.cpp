// Saves in the background: what they save, when they are done, and how their failure is told.
#include <gmock/gmock.h>

#include <future>

#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"
#include "support/fault_operations.h"
#include "tessera/checkpoint/compare.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::SmallRun;
using test::TemporaryDirectory;
using testing::HasSubstr;

/// File operations that wait at the first write until they may go on.
class HeldOperations : public ForwardingFileOperations {
 public:
  explicit HeldOperations(FileOperations& inner) : ForwardingFileOperations(inner) {}
  void write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) override {
    released_.wait();
    ForwardingFileOperations::write(descriptor, bytes, path);
  }
  void release() { release_.set_value(); }

 private:
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

TEST(AsyncSaveTest, SavesWhatWasThereWhenItBegan) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const TemporaryDirectory directory;
    test::UnsyncedOperations operations;
    SmallRun run(dtype);
    run.train(2);
    const fs::path expected = CheckpointDirectory(operations, directory / "sync", {}, test::alone()).save(run.request(2));
    CheckpointDirectory saver(operations, directory / "async", {}, test::alone());
    EXPECT_FALSE(saver.save_has_ended());
    EXPECT_EQ(saver.finish_save(), std::nullopt);
    saver.begin_save(run.request(2));
    run.train(3);
    const std::optional<fs::path> saved = saver.finish_save();
    ASSERT_TRUE(saved.has_value());
    EXPECT_EQ(*saved, directory / "async/epoch_0_step_2");
    EXPECT_TRUE(compare(expected, *saved).same());
    saver.begin_save(run.request(5));  // into the same staging memory
    const fs::path second = saver.finish_save().value();
    SmallRun restored(dtype);
    restored.restore(second, {.verify = Verify::Full});
    EXPECT_TRUE(test::same_state(restored, run));
  }
}

TEST(AsyncSaveTest, ReturnsWhileTheFilesAreStillToBeWritten) {
  const TemporaryDirectory directory;
  test::UnsyncedOperations real;
  HeldOperations operations(real);
  const SmallRun run;
  CheckpointDirectory saver(operations, directory.path(), {}, test::alone());
  saver.begin_save(run.request(1));
  EXPECT_FALSE(saver.save_has_ended());
  EXPECT_FALSE(link_target(directory.path(), kLatest).has_value());
  operations.release();
  EXPECT_TRUE(saver.finish_save().has_value());
  EXPECT_EQ(link_target(directory.path(), kLatest)->filename(), "epoch_0_step_1");
}

TEST(AsyncSaveTest, OneAtATime) {
  const TemporaryDirectory directory;
  test::UnsyncedOperations real;
  HeldOperations operations(real);
  const SmallRun run;
  CheckpointDirectory saver(operations, directory.path(), {}, test::alone());
  saver.begin_save(run.request(1));
  const std::future<void> second = std::async(std::launch::async, [&] { saver.begin_save(run.request(2)); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  operations.release();
  second.wait();
  EXPECT_TRUE(is_checkpoint(directory / "epoch_0_step_1"));
  EXPECT_EQ(saver.finish_save()->filename(), "epoch_0_step_2");
}

TEST(AsyncSaveTest, AnErrorIsKeptUntilItIsAskedFor) {
  const TemporaryDirectory directory;
  test::UnsyncedOperations real;
  FaultOperations operations(real, {.at = 8, .kind = FaultKind::NoSpace});
  SmallRun run;
  CheckpointDirectory saver(operations, directory.path(), {}, test::alone());
  saver.begin_save(run.request(1));
  while (!saver.save_has_ended()) std::this_thread::yield();
  EXPECT_THAT(error_of([&] { saver.finish_save(); }), AllOf(HasSubstr("No space left"), HasSubstr("earlier ones are untouched")));
  EXPECT_EQ(saver.finish_save(), std::nullopt);
  EXPECT_EQ(saver.save(run.request(2)).filename(), "epoch_0_step_2");
}

TEST(AsyncSaveTest, TheEndOfTheObjectWaits) {
  const TemporaryDirectory directory;
  test::UnsyncedOperations operations;
  const SmallRun run;
  CheckpointDirectory(operations, directory.path(), {}, test::alone()).begin_save(run.request(1));
  EXPECT_TRUE(verify_files(directory / "epoch_0_step_1", read_manifest(directory / "epoch_0_step_1"), Verify::Full).empty());
}

TEST(AsyncSaveTest, AFailureAtOneRankIsOneAtAll) {
  const TemporaryDirectory directory;
  const auto ends = test::run_forked(3, [&](comm::Communicator& group) -> std::int64_t {
    test::UnsyncedOperations real;
    FaultOperations operations(real, group.rank() == 2 ? Fault{.at = 3, .kind = FaultKind::InputOutput} : Fault{});
    SmallRun run(DType::F32, nullptr, {.num_shards = 3, .shard = group.rank()});
    CheckpointDirectory saver(operations, directory.path(), {}, group);
    saver.begin_save(run.request(1));
    const std::string error = error_of([&] { saver.finish_save(); });
    return error.find("Input/output error") != std::string::npos && (group.rank() == 2 || error.find("rank 2") != std::string::npos);
  });
  for (const test::RankEnd& end : ends) EXPECT_EQ(end.answer, 1);
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
}

}  // namespace
}  // namespace tessera::checkpoint
