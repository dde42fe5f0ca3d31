// Ends a save at every file operation in turn, in every way a save can end, and looks at what is left.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <iostream>
#include <string>

#include "checkpoint/small_run.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::SmallRun;
using test::TemporaryDirectory;

/// What happens at the chosen operation.
enum class Fault {
  NoSpace,      ///< it fails with ENOSPC, a write after half of its bytes
  InputOutput,  ///< it fails with EIO and has done nothing
  DieBefore,    ///< the process is gone before it: neither this nor any later operation happens
  DieAfter,     ///< … after it
  DieHalfway,   ///< … after half of a write
  KillBefore,   ///< SIGKILL, in a real process
  KillHalfway,
};

/// Not an std::exception: nothing catches it but the test.
struct Death {};

class FaultyOperations : public FileOperations {
 public:
  FaultyOperations(int fail_at, Fault fault) : fail_at_(fail_at), fault_(fault) {}
  int count() const { return count_; }

  int create(const fs::path& path) override {
    int descriptor = -1;
    visit(path, [&] { descriptor = real_.create(path); });
    return descriptor;
  }
  void write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) override {
    const auto half = [&] { real_.write(descriptor, bytes.first(bytes.size() / 2), path); };
    visit(path, [&] { real_.write(descriptor, bytes, path); }, half);
  }
  void sync(int descriptor, const fs::path& path) override {
    visit(path, [&] { real_.sync(descriptor, path); });
  }
  void close(int descriptor, const fs::path& path) override {
    visit(path, [&] { real_.close(descriptor, path); });
  }
  void create_directory(const fs::path& path) override {
    visit(path, [&] { real_.create_directory(path); });
  }
  void sync_directory(const fs::path& path) override {
    visit(path, [&] { real_.sync_directory(path); });
  }
  void rename(const fs::path& from, const fs::path& to) override {
    visit(to, [&] { real_.rename(from, to); });
  }
  void symlink(const fs::path& target, const fs::path& link) override {
    visit(link, [&] { real_.symlink(target, link); });
  }
  void remove_all(const fs::path& path) override {
    // Half a removal: what a kill leaves of a directory.
    const auto half = [&] {
      if (fs::is_directory(path / "optim")) fs::remove_all(path / "optim");
    };
    visit(path, [&] { real_.remove_all(path); }, half);
  }

 private:
  void visit(const fs::path& path, const std::function<void()>& act, const std::function<void()>& half = [] {}) {
    if (dead_) throw Death{};
    if (count_++ != fail_at_) return act();
    switch (fault_) {
      case Fault::NoSpace:
        half();
        throw Failure({path.string(), "cannot write: No space left on device", "", ""});
      case Fault::InputOutput:
        throw Failure({path.string(), "cannot write: Input/output error", "", ""});
      case Fault::KillBefore:
        ::kill(::getpid(), SIGKILL);
        break;
      case Fault::KillHalfway:
        half();
        ::kill(::getpid(), SIGKILL);
        break;
      case Fault::DieAfter:
        act();
        break;
      case Fault::DieHalfway:
        half();
        break;
      case Fault::DieBefore:
        break;
    }
    dead_ = true;
    throw Death{};
  }

  test::UnsyncedOperations real_;
  int fail_at_;
  Fault fault_;
  int count_ = 0;
  bool dead_ = false;
};

DirectoryOptions options() { return {.max_shard_size = 200, .max_recent_checkpoints = 1}; }

/// One earlier checkpoint, and the state that the save under test wants to write.
struct Scene {
  SmallRun earlier, later;
  Scene() {
    earlier.train(1);
    later.train(2);
  }
  void save_earlier(const fs::path& directory) const {
    test::UnsyncedOperations operations;
    SaveRequest request = earlier.request(10);
    request.state.validation_metric = 2.0;
    CheckpointDirectory(operations, directory, options(), test::alone()).save(request);
  }
  void save_later(FileOperations& operations, const fs::path& directory) const {
    SaveRequest request = later.request(20);
    request.state.validation_metric = 1.0;
    request.consolidate = true;
    CheckpointDirectory(operations, directory, options(), test::alone()).save(request);
  }
};

// Both links lead to a whole checkpoint; whatever is visible is whole.
void expect_whole(const Scene& scene, const fs::path& directory) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
  ASSERT_FALSE(entries.empty());
  for (const CheckpointEntry& entry : entries) {
    EXPECT_TRUE(verify_files(entry.path, read_manifest(entry.path), Verify::Full).empty()) << entry.path;
    SmallRun restored;
    restored.restore(entry.path, {.verify = Verify::Full});
    EXPECT_TRUE(test::same_state(restored, entry.step == 10 ? scene.earlier : scene.later));
  }
  for (const char* link : {kLatest, kLowestValidation}) EXPECT_TRUE(link_target(directory, link).has_value()) << link;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.starts_with(".") || name.starts_with(kLatest) || name.starts_with(kLowestValidation) || fs::exists(entry.path() / kManifestName))
        << name;
  }
}

// The next run cleans up and saves.
void expect_next_save_works(const Scene& scene, const fs::path& directory) {
  test::UnsyncedOperations operations;
  CheckpointDirectory run(operations, directory, options(), test::alone());
  SaveRequest request = scene.later.request(30);
  request.state.validation_metric = 0.5;
  run.save(request);
  EXPECT_EQ(link_target(directory, kLatest)->filename(), "epoch_0_step_30");
  EXPECT_EQ(link_target(directory, kLowestValidation)->filename(), "epoch_0_step_30");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 4);  // the checkpoint, two links, the lock
}

void interrupt_in_this_process(const Scene& scene, FaultyOperations& operations, const fs::path& directory) {
  try {
    scene.save_later(operations, directory);
  } catch (const Failure&) {
  } catch (const Death&) {
  }
}

void interrupt_in_another_process(const Scene& scene, FaultyOperations& operations, const fs::path& directory) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    scene.save_later(operations, directory);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int count_operations(const Scene& scene) {
  const TemporaryDirectory directory;
  scene.save_earlier(directory.path());
  FaultyOperations operations(-1, Fault::DieBefore);
  scene.save_later(operations, directory.path());
  return operations.count();
}

class CrashTest : public testing::TestWithParam<Fault> {};

TEST_P(CrashTest, LeavesWholeCheckpointsAtEveryOperation) {
  const Scene scene;
  const int points = count_operations(scene);
  ASSERT_GT(points, 60);
  const bool kills = GetParam() == Fault::KillBefore || GetParam() == Fault::KillHalfway;
  for (int point = 0; point < points; ++point) {
    SCOPED_TRACE(point);
    const TemporaryDirectory directory;
    scene.save_earlier(directory.path());
    FaultyOperations operations(point, GetParam());
    kills ? interrupt_in_another_process(scene, operations, directory.path()) : interrupt_in_this_process(scene, operations, directory.path());
    expect_whole(scene, directory.path());
    expect_next_save_works(scene, directory.path());
    if (HasFailure()) return;
  }
  std::cout << "injected points: " << points << "\n";
}

std::string name_of(const testing::TestParamInfo<Fault>& info) {
  constexpr std::array names = {"NoSpace", "InputOutput", "DieBefore", "DieAfter", "DieHalfway", "KillBefore", "KillHalfway"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Faults, CrashTest,
                         testing::Values(Fault::NoSpace, Fault::InputOutput, Fault::DieBefore, Fault::DieAfter, Fault::DieHalfway, Fault::KillBefore,
                                         Fault::KillHalfway),
                         name_of);

TEST(CrashCleanupTest, AFailedSaveLeavesNothingVisibleNorHidden) {
  const Scene scene;
  for (int point = 0; point < 30; ++point) {
    const TemporaryDirectory directory;
    scene.save_earlier(directory.path());
    FaultyOperations operations(point, Fault::NoSpace);
    EXPECT_NE(test::error_of([&] { scene.save_later(operations, directory.path()); }).find("No space left"), std::string::npos);
    EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 4);
  }
}

}  // namespace
}  // namespace tessera::checkpoint
