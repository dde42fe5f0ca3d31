#include "tessera/checkpoint/manifest.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/core/error.h"

namespace tessera::checkpoint {
namespace {

using test::error_of;
using testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.epoch = 1;
  manifest.step = 20;
  manifest.signature = {"a \"quoted\" model", "0123456789abcdef"};
  manifest.optimizer_steps = 20;
  manifest.validation_metric = 0.1;
  manifest.best_validation = {.metric = 0.05, .step = 10, .checkpoint = "/runs/epoch_0_step_10"};
  manifest.layout = {{"world_size", 2}};
  manifest.versions = {{"tessera", "0.1.0"}};
  manifest.files = {{"model/a.safetensors", {100, "00000000000000aa"}}, {"model/b.safetensors", {200, "00000000000000bb"}}};
  manifest.model["w"] = {DType::BF16, {4, 3}, {{"model/a.safetensors", {0, 0}, {1, 3}, "1"}, {"model/b.safetensors", {1, 0}, {3, 3}, "2"}}};
  manifest.optim["exp_avg.w"] = {DType::F32, {}, {{"model/a.safetensors", {}, {}, "3"}}};
  return manifest;
}

TEST(ManifestTest, SurvivesItsText) {
  const std::string text = to_text(example());
  const Manifest read = manifest_from_text(text, "manifest.json");
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.step, 20);
  EXPECT_EQ(read.validation_metric, 0.1);
  EXPECT_EQ(read.best_validation, example().best_validation);
  EXPECT_EQ(read.signature, example().signature);
  EXPECT_EQ(read.files.at("model/b.safetensors").size, 200u);
  EXPECT_EQ(read.model.at("w").boxes[1].offset, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(read.model.at("w").dtype, DType::BF16);
}

TEST(ManifestTest, EveryFlippedBitAndEveryTruncationIsRefused) {
  const std::string good = to_text(example());
  for (std::size_t position = 0; position < good.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[position] = static_cast<char>(bad[position] ^ (1 << bit));
      ASSERT_THROW(manifest_from_text(bad, "m"), UserError) << position << " " << bit;
    }
    ASSERT_THROW(manifest_from_text(std::string_view(good).substr(0, position), "m"), UserError) << position;
  }
}

std::string refusal(const std::function<void(Manifest&)>& change) {
  Manifest manifest = example();
  change(manifest);
  return error_of([&] { manifest_from_text(to_text(manifest), "manifest.json"); });
}

TEST(ManifestTest, RefusesBoxesThatDoNotCoverTheirTensor) {
  EXPECT_THAT(refusal([](Manifest& m) { m.model["w"].boxes.pop_back(); }), HasSubstr("w: the boxes hold 3 of 12 elements"));
  EXPECT_THAT(refusal([](Manifest& m) { m.model["w"].boxes[0].size = {2, 3}; }), HasSubstr("overlap"));
  EXPECT_THAT(refusal([](Manifest& m) { m.model["w"].boxes[1].offset = {2, 0}; }), HasSubstr("not inside the shape"));
  EXPECT_THAT(refusal([](Manifest& m) { m.model["w"].boxes[1].file = "model/a.safetensors"; }), HasSubstr("two boxes in model/a.safetensors"));
  EXPECT_THAT(refusal([](Manifest& m) { m.model["w"].shape = {-4, 3}; }), HasSubstr("impossible shape"));
}

TEST(ManifestTest, RefusesFilesThatAreNotItsOwn) {
  EXPECT_THAT(refusal([](Manifest& m) { m.files.erase("model/b.safetensors"); }), HasSubstr("the file model/b.safetensors is not listed"));
  EXPECT_THAT(refusal([](Manifest& m) { m.files["../secrets"] = {}; }), HasSubstr("not inside the checkpoint"));
  EXPECT_THAT(refusal([](Manifest& m) { m.files["/etc/passwd"] = {}; }), HasSubstr("not inside the checkpoint"));
}

TEST(ManifestTest, RefusesWhatReadersCannotShow) {
  EXPECT_THAT(refusal([](Manifest& m) { m.layout = "fsdp2"; }), HasSubstr("the layout is not an object of sizes: \"fsdp2\""));
  EXPECT_THAT(refusal([](Manifest& m) { m.layout = {{"world_size", "2"}}; }), HasSubstr("the layout is not"));
  EXPECT_THAT(refusal([](Manifest& m) { m.versions = {{"tessera", 1}}; }), HasSubstr("the versions are not an object of texts"));
  EXPECT_THAT(refusal([](Manifest& m) { m.versions = Json::array(); }), HasSubstr("the versions are not"));
}

TEST(ManifestTest, WhatCannotBeLookedAtIsRefusedWithTheReason) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_symlink(kManifestName, directory / kManifestName);  // leads to itself
  EXPECT_TRUE(is_checkpoint(directory.path()));
  EXPECT_THAT(error_of([&] { read_manifest(directory.path()); }), HasSubstr("cannot read the file"));
}

TEST(ManifestTest, ADirectoryWithoutOneIsNotComplete) {
  const test::TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { read_manifest(directory.path()); }), HasSubstr("no manifest.json"));
}

}  // namespace
}  // namespace tessera::checkpoint
