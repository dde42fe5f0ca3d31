#include "tessera/checkpoint/links.h"

#include <gmock/gmock.h>

#include <string>

#include "support/support.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

/// A directory of checkpoints that are nothing but manifests.
class LinksTest : public testing::Test {
 protected:
  fs::path add(std::int64_t step, std::optional<double> metric, const std::optional<BestValidation>& best = {}) {
    Manifest manifest;
    manifest.best_validation = best;
    manifest.step = step;
    manifest.validation_metric = metric;
    const fs::path checkpoint = directory_ / checkpoint_name(0, step);
    fs::create_directory(checkpoint);
    test::write_file(checkpoint / kManifestName, to_text(manifest));
    return checkpoint;
  }
  void damage(std::int64_t step) { test::write_file(directory_ / checkpoint_name(0, step) / kManifestName, "{}"); }
  void save(std::int64_t step, std::optional<double> metric) { switch_links(*operations_, directory_.path(), add(step, metric), metric); }
  void link(const char* name, const fs::path& target) { fs::create_symlink(target, directory_ / name); }
  std::string repair() {
    testing::internal::CaptureStderr();
    repair_links(*operations_, directory_.path());
    return testing::internal::GetCapturedStderr();
  }
  std::string leads_to(const char* link) const { return link_target(directory_.path(), link).value_or("nothing").filename(); }

  test::TemporaryDirectory directory_;
  std::unique_ptr<FileOperations> operations_ = posix_file_operations();
};

TEST_F(LinksTest, ARepairMovesWhatAKilledSaveLeftBehind) {
  add(1, 2.0);
  add(2, 1.0);
  link(kLatest, "epoch_0_step_1");
  link(kLowestValidation, "epoch_0_step_1");
  EXPECT_THAT(repair(), AllOf(HasSubstr("LATEST led to epoch_0_step_1; it now leads to epoch_0_step_2"), HasSubstr("LOWEST_VAL led to")));
  EXPECT_EQ(leads_to(kLatest), "epoch_0_step_2");
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
  EXPECT_EQ(repair(), "");
}

TEST_F(LinksTest, ARepairMakesMissingLinks) {
  EXPECT_EQ(repair(), "");  // of an empty directory
  for (const auto& [step, metric] : {std::pair(1, 2.0), std::pair(2, 1.0), std::pair(3, 1.0), std::pair(4, 3.0)}) add(step, metric);
  repair();
  EXPECT_EQ(leads_to(kLatest), "epoch_0_step_4");
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
}

TEST_F(LinksTest, WithoutMeasurementsThereIsNoLowest) {
  add(1, std::nullopt);
  repair();
  EXPECT_EQ(leads_to(kLatest), "epoch_0_step_1");
  EXPECT_FALSE(fs::exists(directory_ / kLowestValidation));
}

TEST_F(LinksTest, ARepairLeavesLinksThatAreRight) {
  for (const int step : {1, 2, 3}) add(step, 1.0);
  link(kLowestValidation, "epoch_0_step_2");  // as low as any
  const test::TemporaryDirectory elsewhere;
  test::write_file(elsewhere / kManifestName, "{}");
  link(kLatest, elsewhere.path());
  EXPECT_EQ(repair(), "");
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
  EXPECT_EQ(link_target(directory_.path(), kLatest), fs::canonical(elsewhere.path()));
}

TEST_F(LinksTest, ADamagedLowestGivesItsPlaceToTheNextAtARepair) {
  for (const auto& [step, metric] : {std::pair(1, 1.0), std::pair(2, 2.0), std::pair(3, 3.0)}) save(step, metric);
  damage(1);
  EXPECT_THAT(repair(), HasSubstr("LOWEST_VAL led to epoch_0_step_1, whose manifest is damaged; it now leads to epoch_0_step_2"));
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
}

TEST_F(LinksTest, ADamagedLowestGivesItsPlaceToTheNextAtASave) {
  save(1, 1.0);
  save(2, 2.0);
  damage(1);
  testing::internal::CaptureStderr();
  save(3, 3.0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("whose manifest is damaged"));
  EXPECT_EQ(leads_to(kLatest), "epoch_0_step_3");
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
  fs::remove_all(directory_ / "epoch_0_step_2");
  testing::internal::CaptureStderr();
  save(4, std::nullopt);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("led to epoch_0_step_2, which is not a complete checkpoint"));
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_3");
}

TEST_F(LinksTest, ASaveFindsTheLowestWhenTheLinkIsMissing) {
  save(1, 1.0);
  fs::remove(directory_ / kLowestValidation);
  save(2, 2.0);
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_1");
}

TEST_F(LinksTest, WhatStandsInALinksPlaceIsRefused) {
  save(1, 1.0);
  refuse_blocked_links(directory_.path());
  fs::create_directory(directory_ / "LATEST.new");
  EXPECT_THAT(error_of([&] { refuse_blocked_links(directory_.path()); }), HasSubstr("LATEST.new: a directory stands where a link goes"));
  fs::remove(directory_ / "LATEST.new");
  fs::remove(directory_ / kLowestValidation);
  test::write_file(directory_ / kLowestValidation, "");
  EXPECT_THAT(error_of([&] { refuse_blocked_links(directory_.path()); }), AllOf(HasSubstr("a file stands where a link goes"), HasSubstr("move it")));
}

/// Of a run that began elsewhere, while its best checkpoint is there.
TEST_F(LinksTest, OnlyTheBestOfItsRunIsTheLowest) {
  const test::TemporaryDirectory elsewhere;
  test::write_file(elsewhere / kManifestName, "{}");
  const BestValidation best{.metric = 1.5, .step = 1, .checkpoint = elsewhere.path().string()};
  add(2, 2.0, best);
  EXPECT_EQ(repair(), "");
  EXPECT_EQ(leads_to(kLowestValidation), "nothing");
  add(3, 1.2, BestValidation{.metric = 1.2, .step = 3, .checkpoint = (directory_ / checkpoint_name(0, 3)).string()});
  repair();
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_3");
  fs::remove_all(directory_ / checkpoint_name(0, 3));
  fs::remove_all(elsewhere.path());
  repair();
  EXPECT_EQ(leads_to(kLowestValidation), "epoch_0_step_2");
}

}  // namespace
}  // namespace tessera::checkpoint
