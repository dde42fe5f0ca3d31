#include "tessera/train/restore_point.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using tessera::test::error_of;
using testing::HasSubstr;

class RestorePointTest : public testing::Test {
 protected:
  RestorePointTest() { add(root_ / "other" / "epoch_0_step_6"); }

  static fs::path add(const fs::path& checkpoint) {
    tessera::test::write_file(checkpoint / "manifest.json", "{}");
    return fs::canonical(checkpoint);
  }
  fs::path begin() { return add(root_ / "own" / "epoch_0_step_9"); }
  RestorePoint found(const std::string& restore_from, bool restore_optimizer = true) const {
    config::Checkpoint options;
    options.checkpoint_dir = (root_ / "own").string();
    options.restore_from = restore_from;
    options.restore_optimizer = restore_optimizer;
    return find_restore_point(options);
  }

  tessera::test::TemporaryDirectory root_;
  const std::string other_ = (root_ / "other/epoch_0_step_6").string();
};

TEST_F(RestorePointTest, ANewDirectoryBeginsWhereTheRecipeSays) {
  EXPECT_EQ(found("").path, "");
  EXPECT_EQ(found(other_).path, fs::canonical(other_));
  EXPECT_FALSE(found(other_).weights_alone);
  EXPECT_TRUE(found(other_, false).weights_alone);
}

TEST_F(RestorePointTest, ARunThatHasBegunGoesOnFromWhatItSaved) {
  const fs::path own = begin();
  EXPECT_EQ(found("").path, own);
  EXPECT_EQ(found("").note, "");
  for (const bool restore_optimizer : {true, false}) {
    EXPECT_EQ(found(other_, restore_optimizer).path, own);
    EXPECT_FALSE(found(other_, restore_optimizer).weights_alone);
    EXPECT_THAT(found(other_, restore_optimizer).note, HasSubstr("began at checkpoint.restore_from (" + other_ + ")"));
  }
  EXPECT_THAT(found("", false).note, HasSubstr("restore_optimizer: false has no effect"));
  fs::remove_all(root_ / "other");  // no longer needed
  EXPECT_EQ(found(other_).path, own);
}

TEST_F(RestorePointTest, WhatIsNamedInTheDirectoryIsGoneBackTo) {
  const fs::path own = begin(), later = add(root_ / "own/epoch_0_step_12");
  for (const std::string& name :
       {std::string("epoch_0_step_9"), (root_ / "own/epoch_0_step_9").string(), (root_ / "other/../own/epoch_0_step_9").string()}) {
    EXPECT_EQ(found(name).path, own);
    EXPECT_TRUE(found(name, false).weights_alone);
  }
  EXPECT_EQ(found("LATEST").path, later);
  for (const std::string& name : {std::string("epoch_0_step_7"), (root_ / "own/epoch_0_step_7").string()})
    EXPECT_THAT(error_of([&] { found(name); }), HasSubstr("there is epoch_0_step_9"));
}

TEST_F(RestorePointTest, SaysWhetherTheSameCommandContinues) {
  begin();
  config::Checkpoint options;
  options.checkpoint_dir = (root_ / "own").string();
  for (const auto& [from, continues] :
       {std::pair<std::string, bool>("", true), {"LATEST", true}, {other_, true}, {"LOWEST_VAL", false}, {"epoch_0_step_9", false}}) {
    options.restore_from = from;
    EXPECT_EQ(continues_from_newest(options), continues) << from;
  }
}

}  // namespace
}  // namespace tessera::train
