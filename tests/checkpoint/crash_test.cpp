// Ends a save at every file operation of every rank in turn, in every way a save can end, and looks at what is left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"
#include "support/fault_operations.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::SmallRun;
using test::TemporaryDirectory;

constexpr std::uint64_t kSeed = 20260;
constexpr FaultKind kKinds[] = {FaultKind::NoSpace, FaultKind::InputOutput, FaultKind::KillBefore, FaultKind::KillHalfway, FaultKind::KillAfter};

DirectoryOptions options() { return {.max_shard_size = 200, .max_recent_checkpoints = 1}; }

/// How the state of the run lies on the ranks.
struct Layout {
  std::string name;
  int shards = 1;
  int replicas = 1;

  int num_ranks() const { return shards * replicas; }
  model::Placement placement(int rank) const {
    return {.num_shards = shards, .shard = rank % shards, .num_replicas = replicas, .replica = rank / shards};
  }
};

/// One place where a save ends.
struct Point {
  int rank = 0;
  Fault fault;
  bool in_background = false;
};

/// One earlier checkpoint, and the state that the save under test wants to write.
class Scene {
 public:
  explicit Scene(const Layout& layout) : layout_(layout) {
    earlier_.train(1);
    later_.train(2);
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      ranks_.push_back(std::make_unique<SmallRun>(DType::BF16, nullptr, layout.placement(rank)));
      ranks_.back()->train(2);
    }
    SaveRequest request = earlier_.request(10);
    request.state.validation_metric = 2.0;
    test::UnsyncedOperations operations;
    CheckpointDirectory(operations, template_.path(), options(), test::alone()).save(request);
  }

  /// A directory with the earlier checkpoint.
  void prepare(const fs::path& directory) const {
    fs::copy(template_.path(), directory, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  /// Saves the later state on all ranks, of which one meets the fault. Returns how many operations each asked for.
  std::vector<test::RankEnd> save_later(const fs::path& directory, const Point& point) const {
    return test::run_forked(layout_.num_ranks(), [&](comm::Communicator& group) -> std::int64_t {
      test::UnsyncedOperations real;
      FaultOperations operations(real, group.rank() == point.rank ? point.fault : Fault{});
      try {
        save(operations, directory, group, point.in_background);
      } catch (const Failure&) {  // what the run would report
      }
      return operations.count();
    });
  }

  // Both links lead to a whole checkpoint; whatever is visible is whole.
  void expect_whole(const fs::path& directory) const {
    const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
    ASSERT_FALSE(entries.empty());
    for (const CheckpointEntry& entry : entries) {
      EXPECT_TRUE(verify_files(entry.path, read_manifest(entry.path), Verify::Full).empty()) << entry.path;
      SmallRun restored(DType::BF16);
      restored.restore(entry.path, {.verify = Verify::Full});
      EXPECT_TRUE(test::same_state(restored, entry.step == 10 ? earlier_ : later_));
    }
    for (const char* link : {kLatest, kLowestValidation}) EXPECT_TRUE(link_target(directory, link).has_value()) << link;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name.starts_with(".") || name.starts_with(kLatest) || name.starts_with(kLowestValidation) || is_checkpoint(entry.path())) << name;
    }
  }

  // The next run cleans up and saves, first something worse than all there is, then something better.
  void expect_next_saves_work(const fs::path& directory) const {
    const std::string best = list_checkpoints(directory).back().path.filename().string();  // the later, the lower
    test::UnsyncedOperations operations;
    CheckpointDirectory run(operations, directory, options(), test::alone());
    SaveRequest request = later_.request(30);
    request.state.validation_metric = 3.0;
    run.save(request);
    EXPECT_EQ(link_target(directory, kLatest)->filename(), "epoch_0_step_30");
    EXPECT_EQ(link_target(directory, kLowestValidation).value_or("none").filename(), best);
    EXPECT_EQ(list_checkpoints(directory).size(), 2U);
    request = later_.request(40);
    request.state.validation_metric = 0.5;
    run.save(request);
    for (const char* link : {kLatest, kLowestValidation}) EXPECT_EQ(link_target(directory, link)->filename(), "epoch_0_step_40");
    EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 4);  // the checkpoint, two links, the lock
  }

  const Layout& layout() const { return layout_; }

 private:
  void save(FileOperations& operations, const fs::path& directory, comm::Communicator& group, bool in_background) const {
    SmallRun& own = *ranks_[static_cast<std::size_t>(group.rank())];
    CheckpointDirectory run(operations, directory, options(), group);
    SaveRequest request = own.request(20);
    request.state.validation_metric = 1.0;
    request.consolidate = true;
    if (!in_background) {
      run.save(request);
      return;
    }
    run.begin_save(request);
    own.train(1);  // what is saved is what was there before
    run.finish_save();
  }

  Layout layout_;
  SmallRun earlier_{DType::BF16}, later_{DType::BF16};
  std::vector<std::unique_ptr<SmallRun>> ranks_;
  TemporaryDirectory template_;
};

std::vector<Point> all_points(const Scene& scene) {
  std::vector<Point> points;
  for (const bool in_background : {false, true}) {
    const TemporaryDirectory parent;
    scene.prepare(parent / "run");
    const std::vector<test::RankEnd> ends = scene.save_later(parent / "run", {.rank = 0, .fault = {}, .in_background = in_background});
    for (int rank = 0; rank < scene.layout().num_ranks(); ++rank)
      for (int at = 0; at < ends[static_cast<std::size_t>(rank)].answer; ++at)
        for (const FaultKind kind : kKinds) points.push_back({rank, {.at = at, .kind = kind}, in_background});
  }
  return points;
}

void end_at(const Scene& scene, const Point& point) {
  SCOPED_TRACE(fmt::format("rank {}, operation {}, kind {}, in background {}", point.rank, point.fault.at, static_cast<int>(point.fault.kind),
                           point.in_background));
  const TemporaryDirectory parent;
  scene.prepare(parent / "run");
  const std::vector<test::RankEnd> ends = scene.save_later(parent / "run", point);
  const bool kills = point.fault.kind >= FaultKind::KillBefore;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].killed, kills && static_cast<int>(rank) == point.rank);
    EXPECT_EQ(ends[rank].status, 0);
  }
  scene.expect_whole(parent / "run");
  scene.expect_next_saves_work(parent / "run");
}

class CrashTest : public testing::TestWithParam<Layout> {
 protected:
  /// At so many points, chosen by the seed; at all of them when there are fewer.
  void end_saves(std::size_t num_points) {
    const Scene scene(GetParam());
    std::vector<Point> points = all_points(scene);
    const std::size_t all = points.size();
    if (num_points < all) {
      std::ranges::shuffle(points, std::mt19937_64(kSeed));
      points.resize(num_points);
    }
    for (const Point& point : points) {
      end_at(scene, point);
      if (HasFailure()) return;
    }
    fmt::print("injected points: {} of {}\n", points.size(), all);
    EXPECT_GT(all, 500u);
  }
};

TEST_P(CrashTest, SomePointsOfASave) { end_saves(60); }
TEST_P(CrashTest, LONG_EveryPointOfASave) { end_saves(std::numeric_limits<std::size_t>::max()); }

INSTANTIATE_TEST_SUITE_P(Layouts, CrashTest,
                         testing::Values(Layout{"one", 1, 1}, Layout{"two", 2, 1}, Layout{"replicated", 1, 3}, Layout{"hybrid", 2, 2}),
                         [](const auto& info) { return info.param.name; });

TEST(CrashCleanupTest, AFailedSaveLeavesNothingVisibleNorHidden) {
  const Scene scene({"one", 1, 1});
  for (int at = 0; at < 30; ++at) {
    const TemporaryDirectory parent;
    scene.prepare(parent / "run");
    scene.save_later(parent / "run", {.rank = 0, .fault = {.at = at, .kind = FaultKind::NoSpace}});
    EXPECT_EQ(std::distance(fs::directory_iterator(parent / "run"), fs::directory_iterator()), 4) << at;
  }
}

}  // namespace
}  // namespace tessera::checkpoint
