// Watches the order of file operations: what must last is synced before anything relies on it.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/small_run.h"
#include "tessera/checkpoint/consolidate.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/reshard.h"
#include "tessera/model/piece_plan.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::SmallRun;
using test::TemporaryDirectory;
using testing::IsEmpty;

/// Knows what a power cut would lose, and what came to rely on it too early.
class PowerWatch : public ForwardingFileOperations {
 public:
  explicit PowerWatch(FileOperations& inner) : ForwardingFileOperations(inner) {}

  /// Files whose content, and folders whose entries, nothing has synced since they changed. Leftovers may come back: they are removed again.
  const std::set<fs::path>& unsynced() const { return unsynced_; }
  const std::vector<std::string>& mistakes() const { return mistakes_; }
  int num_renamed_folders() const { return num_renamed_folders_; }

  int create(const fs::path& path) override {
    unsynced_.insert({path, path.parent_path()});
    return ForwardingFileOperations::create(path);
  }
  int open_at(const fs::path& path, std::uint64_t offset) override {
    unsynced_.insert(path);
    return ForwardingFileOperations::open_at(path, offset);
  }
  void write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) override {
    unsynced_.insert(path);
    ForwardingFileOperations::write(descriptor, bytes, path);
  }
  void sync(int, const fs::path& path) override { unsynced_.erase(path); }
  void create_directory(const fs::path& path) override {
    unsynced_.insert({path, path.parent_path()});
    ForwardingFileOperations::create_directory(path);
  }
  void sync_directory(const fs::path& path) override {
    unsynced_.erase(path);
    std::erase_if(renamed_, [&](const fs::path& folder) { return folder.parent_path() == path; });
  }
  void rename(const fs::path& from, const fs::path& to) override {
    if (fs::is_directory(fs::symlink_status(from))) {
      ++num_renamed_folders_;
      for (const fs::path& path : unsynced_)
        if (lies_in(path, from)) mistakes_.push_back(path.string() + " is not synced when its checkpoint is renamed");
      if (!to.filename().string().starts_with(".")) renamed_.insert(to);
      if (to.extension() == ".removing" && unsynced_.contains(to.parent_path())) mistakes_.push_back("a removal before the links last");
    }
    unsynced_.insert(to.parent_path());
    ForwardingFileOperations::rename(from, to);
  }
  void symlink(const fs::path& target, const fs::path& link) override {
    if (!renamed_.empty()) mistakes_.push_back(link.string() + " leads to a checkpoint whose name may be lost");
    unsynced_.insert(link.parent_path());
    ForwardingFileOperations::symlink(target, link);
  }
  void remove_all(const fs::path& path) override {
    if (path.extension() == ".removing" && unsynced_.contains(path.parent_path())) mistakes_.push_back("a removal before its rename lasts");
    std::erase_if(unsynced_, [&](const fs::path& other) { return lies_in(other, path); });
    ForwardingFileOperations::remove_all(path);
  }

 private:
  static bool lies_in(const fs::path& path, const fs::path& folder) { return path == folder || path.string().starts_with(folder.string() + "/"); }

  std::set<fs::path> unsynced_;
  std::set<fs::path> renamed_;  ///< folders whose parents are not synced yet
  std::vector<std::string> mistakes_;
  int num_renamed_folders_ = 0;
};

class DurabilityTest : public testing::Test {
 protected:
  fs::path save(std::int64_t step) {
    SaveRequest request = run_.request(step);
    request.consolidate = true;
    request.state.validation_metric = 1.0 / static_cast<double>(step);
    return CheckpointDirectory(watch_, directory_ / "run", {.max_shard_size = 200, .max_recent_checkpoints = 1}, test::alone()).save(request);
  }
  void expect_durable() const {
    EXPECT_THAT(watch_.mistakes(), IsEmpty());
    EXPECT_THAT(watch_.unsynced(), IsEmpty());
  }

  TemporaryDirectory directory_;
  std::unique_ptr<FileOperations> real_ = posix_file_operations();
  PowerWatch watch_{*real_};
  SmallRun run_{DType::BF16};
};

TEST_F(DurabilityTest, ASaveSyncsAllBeforeItIsSeen) {
  save(1);
  expect_durable();
  save(2);  // removes the first
  expect_durable();
  EXPECT_EQ(watch_.num_renamed_folders(), 3);
}

TEST_F(DurabilityTest, WhatIsMadeOfACheckpointIsSyncedBeforeItIsSeen) {
  const fs::path checkpoint = save(1);
  consolidate(watch_, checkpoint, directory_ / "model", {}, test::alone());
  const auto owned = [](std::int64_t rank) {
    return model::plan_owned_pieces(test::small_table(), {.frozen = {}, .placement = {.num_shards = 2, .shard = rank}});
  };
  reshard(watch_, checkpoint, directory_ / "resharded", {2, owned, {{"world_size", 2}}});
  expect_durable();
  EXPECT_EQ(watch_.num_renamed_folders(), 3);
}

/// Every folder of a new path is an entry of the one before.
TEST_F(DurabilityTest, ANewDirectoryLasts) {
  struct Synced : ForwardingFileOperations {
    using ForwardingFileOperations::ForwardingFileOperations;
    void sync_directory(const fs::path& path) override { paths.insert(path); }
    std::set<fs::path> paths;
  };
  Synced synced(*real_);
  const CheckpointDirectory opened(synced, directory_ / "deep/er/run/", {}, test::alone());
  EXPECT_EQ(synced.paths, (std::set<fs::path>{directory_.path(), directory_ / "deep", directory_ / "deep/er"}));
}

}  // namespace
}  // namespace tessera::checkpoint
