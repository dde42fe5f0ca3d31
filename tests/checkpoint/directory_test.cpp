#include "tessera/checkpoint/directory.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "support/support.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::TemporaryDirectory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A directory that passes for complete.
fs::path add(const fs::path& directory, const std::string& name, bool complete = true) {
  fs::create_directories(directory / name);
  if (complete) test::write_file(directory / name / kManifestName, "{}");
  return directory / name;
}

std::vector<std::string> names(const fs::path& directory) {
  std::vector<std::string> result;
  for (const CheckpointEntry& entry : list_checkpoints(directory)) result.push_back(entry.path.filename().string());
  return result;
}

TEST(DirectoryTest, ListsCompleteCheckpointsByStep) {
  const TemporaryDirectory directory;
  for (const char* name : {"epoch_1_step_100", "epoch_0_step_9", "epoch_0_step_20"}) add(directory.path(), name);
  for (const char* name : {"epoch_0_step_x", "epoch_0", "other", ".epoch_0_step_1.saving", "epoch_-1_step_2", "epoch_0_step_3_old"})
    add(directory.path(), name);
  add(directory.path(), "epoch_0_step_30", false);
  EXPECT_THAT(names(directory.path()), ElementsAre("epoch_0_step_9", "epoch_0_step_20", "epoch_1_step_100"));
  EXPECT_TRUE(list_checkpoints(directory / "nowhere").empty());
}

TEST(DirectoryTest, ResolvesLinksNamesAndPaths) {
  const TemporaryDirectory directory;
  const fs::path first = fs::canonical(add(directory.path(), "epoch_0_step_1"));
  const fs::path second = fs::canonical(add(directory.path(), "epoch_0_step_2"));
  EXPECT_EQ(resolve_restore_from(directory.path(), "LATEST"), second);  // no link yet: the newest
  fs::create_symlink("epoch_0_step_1", directory / "LATEST");
  EXPECT_EQ(resolve_restore_from(directory.path(), "LATEST"), second);  // a save was killed before it moved the link
  fs::create_symlink("epoch_0_step_1", directory / "LOWEST_VAL");
  EXPECT_EQ(resolve_restore_from(directory.path(), "LOWEST_VAL"), first);
  fs::remove(directory / "LOWEST_VAL");
  EXPECT_EQ(resolve_restore_from(directory.path(), "epoch_0_step_2"), second);
  EXPECT_EQ(resolve_restore_from(directory / "elsewhere", second.string()), second);
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "LOWEST_VAL"); }), HasSubstr("there is no LOWEST_VAL"));
}

TEST(DirectoryTest, SaysWhatARestorePathIsInstead) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "LATEST"); }), HasSubstr("holds no complete checkpoint"));
  add(directory.path(), "epoch_0_step_1");
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "epoch_0_step_7"); }),
              AllOf(HasSubstr("neither a checkpoint in"), HasSubstr("there is epoch_0_step_1")));
  add(directory.path(), "epoch_0_step_3", false);
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "epoch_0_step_3"); }), HasSubstr("not a complete checkpoint"));
  add(directory.path(), "model", false);
  test::write_file(directory / "model" / "config.json", "{}");
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "model"); }),
              AllOf(HasSubstr("a model directory, not a checkpoint"), HasSubstr("restore_optimizer: false")));
  EXPECT_THAT(error_of([&] { resolve_restore_from(directory.path(), "model", true); }), HasSubstr("a model directory without weights"));
}

TEST(DirectoryTest, APartOfACheckpointNamesTheWhole) {
  const TemporaryDirectory directory;
  const fs::path whole = fs::canonical(add(directory.path(), "epoch_0_step_1"));
  add(whole, "model", false);
  test::write_file(whole / "model" / "config.json", "{}");
  const auto fix = [&](bool weights_alone) {
    return error_of([&] { resolve_restore_from(directory.path(), "epoch_0_step_1/model", weights_alone); });
  };
  for (const bool weights_alone : {false, true}) EXPECT_THAT(fix(weights_alone), HasSubstr("name the checkpoint itself, " + whole.string()));
  EXPECT_THAT(fix(true), testing::Not(HasSubstr("consolidated")));
  add(whole, "model/consolidated", false);
  test::write_file(whole / "model/consolidated/model.safetensors", "");
  EXPECT_THAT(fix(true), HasSubstr(", or " + (whole / "model/consolidated").string()));
  EXPECT_THAT(fix(false), testing::Not(HasSubstr("consolidated")));
}

TEST(DirectoryTest, WhatLaterSavesWouldMeetIsRefused) {
  const TemporaryDirectory directory;
  const auto refusal = [&](std::int64_t step) { return error_of([&] { refuse_later_checkpoints(directory.path(), step); }); };
  add(directory.path(), "epoch_0_step_4");
  refuse_later_checkpoints(directory.path(), 4);
  EXPECT_THAT(refusal(3), AllOf(HasSubstr("holds epoch_0_step_4, later than step 3"), HasSubstr("restore_from: LATEST")));
  add(directory.path(), "epoch_0_step_2", false);
  refuse_later_checkpoints(directory.path(), 4);
  add(directory.path(), "epoch_0_step_6", false);
  fs::create_symlink("epoch_0_step_4", directory / "epoch_0_step_7");
  EXPECT_THAT(refusal(4), AllOf(HasSubstr("epoch_0_step_6: not a complete checkpoint: it has no manifest.json"),
                                HasSubstr("epoch_0_step_7: a link, not a checkpoint"), HasSubstr("remove it")));
}

TEST(DirectoryTest, RemovesOnlyItsOwnLeftovers) {
  const TemporaryDirectory directory;
  for (const char* name : {".epoch_0_step_1.saving", ".epoch_0_step_2.removing"}) add(directory.path(), name);
  for (const char* name : {".mine.saving", ".epoch_0_step_1.backup", "epoch_0_step_1.saving", "epoch_0_step_5"}) add(directory.path(), name);
  remove_leftovers(*posix_file_operations(), directory.path());
  EXPECT_FALSE(fs::exists(directory / ".epoch_0_step_1.saving"));
  EXPECT_FALSE(fs::exists(directory / ".epoch_0_step_2.removing"));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 4);
}

TEST(DirectoryTest, PruneKeepsWhatLinksPointAt) {
  const TemporaryDirectory directory;
  for (int step = 1; step <= 5; ++step) add(directory.path(), checkpoint_name(0, step));
  fs::create_symlink("epoch_0_step_2", directory / "best-so-far");
  EXPECT_EQ(prune(*posix_file_operations(), directory.path(), 2).size(), 2u);
  EXPECT_THAT(names(directory.path()), ElementsAre("epoch_0_step_2", "epoch_0_step_4", "epoch_0_step_5"));
  EXPECT_TRUE(prune(*posix_file_operations(), directory.path(), 9).empty());
}

TEST(DirectoryTest, TheSecondRunIsRefusedWithTheOwner) {
  const TemporaryDirectory directory;
  {
    const DirectoryLock lock(directory.path());
    const std::string message = error_of([&] { DirectoryLock second(directory.path()); });
    EXPECT_THAT(message, AllOf(HasSubstr("another run"), HasSubstr("process " + std::to_string(::getpid()) + " of "), HasSubstr("on host")));
  }
  const DirectoryLock again(directory.path());
}

}  // namespace
}  // namespace tessera::checkpoint
