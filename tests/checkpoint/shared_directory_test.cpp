// Ranks that do not see one directory: hosts without a common file system.
#include <gmock/gmock.h>

#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;

/// Opens a directory on two ranks, each by its own path; what each rank is told.
void expect_opening(const std::vector<fs::path>& paths, const std::vector<testing::Matcher<std::string>>& errors) {
  const auto ends = test::run_forked(static_cast<int>(paths.size()), [&](comm::Communicator& group) -> std::int64_t {
    const auto rank = static_cast<std::size_t>(group.rank());
    test::UnsyncedOperations operations;
    std::string error;
    try {
      const CheckpointDirectory opened(operations, paths[rank], {.visible_within = std::chrono::milliseconds(0)}, group);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    EXPECT_THAT(error, errors[rank]);
    return testing::Matches(errors[rank])(error) ? 1 : 0;
  });
  for (const test::RankEnd& end : ends) EXPECT_EQ(end.answer, 1);
}

TEST(SharedDirectoryTest, EveryRankSeesWhatTheFirstWrites) {
  const TemporaryDirectory root;
  fs::create_directory_symlink(root.path(), root / "link");
  expect_opening({root.path(), root / "link"}, {"", ""});
}

TEST(SharedDirectoryTest, ARankThatSeesAnotherDirectoryIsNamedBeforeTraining) {
  const TemporaryDirectory root;
  const auto named = AllOf(HasSubstr("rank 1 (on host "), HasSubstr("does not see what rank 0 writes"));
  expect_opening({root / "here", root / "there"}, {HasSubstr("rank 1"), AllOf(named, HasSubstr("a file system that all hosts share"))});
  // Of an earlier run that was alone on that host.
  test::UnsyncedOperations operations;
  CheckpointDirectory(operations, root / "there", {}, test::alone());
  expect_opening({root / "here", root / "there"}, {HasSubstr("rank 1"), named});
}

}  // namespace
}  // namespace tessera::checkpoint
