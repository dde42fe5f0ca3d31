#include "tessera/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/support.h"

namespace tessera::train {
namespace {

using testing::HasSubstr;

const StepMetrics kMetrics{.step = 5,
                           .epoch = 1,
                           .loss = 2.312149,
                           .gradient_norm = 1.03125,
                           .learning_rate = 1e-5,
                           .memory_gib = 1.9234,
                           .tokens_per_second = 512.328,
                           .mfu = 0.6123,
                           .num_label_tokens = 1024,
                           .world_size = 2};

TEST(Metrics, TheLogLine) {
  EXPECT_EQ(
      log_line(kMetrics),
      "step 5 | epoch 1 | loss 2.3121 | grad_norm 1.0312 | lr 1.00e-05 | mem 1.92 GiB | tps 512.33(256.16/gpu) | num_label_tokens 1024 | mfu 61.2%");
  StepMetrics unmeasured = kMetrics;
  unmeasured.mfu = 0.0;
  EXPECT_TRUE(log_line(unmeasured).ends_with("| num_label_tokens 1024"));
}

TEST(Metrics, AsJson) {
  const Json json = to_json(kMetrics);
  EXPECT_EQ(json.at("step"), 5);
  EXPECT_EQ(json.at("loss"), 2.312149);
  EXPECT_EQ(json.at("grad_norm"), 1.03125);
  EXPECT_EQ(json.at("lr"), 1e-5);
  EXPECT_EQ(json.at("tps_per_gpu"), 256.164);
  EXPECT_EQ(json.at("num_label_tokens"), 1024);
}

class JsonLinesFile : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "training.jsonl";
};

TEST_F(JsonLinesFile, IsCompleteAfterEachLine) {
  JsonLines lines(path_, 0);
  EXPECT_EQ(test::read_file(path_), "");
  lines.write({{"step", 1}});
  EXPECT_EQ(test::read_file(path_), "{\"step\":1}\n");
  lines.write({{"step", 2}, {"text", "a\nb"}});
  EXPECT_EQ(test::read_file(path_), "{\"step\":1}\n{\"step\":2,\"text\":\"a\\nb\"}\n");
}

TEST_F(JsonLinesFile, AResumedRunDropsWhatCameAfterItsCheckpoint) {
  test::write_file(path_, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  JsonLines lines(path_, 2);
  lines.write({{"step", 3}, {"again", true}});
  EXPECT_EQ(test::read_file(path_), "{\"step\":1}\n{\"step\":2}\n{\"again\":true,\"step\":3}\n");
}

TEST_F(JsonLinesFile, AHalfWrittenLastLineIsDropped) {
  test::write_file(path_, "{\"step\":1}\n{\"step\":2}\n{\"st");
  JsonLines lines(path_, 5);
  EXPECT_EQ(test::read_file(path_), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(JsonLinesFile, ANewRunStartsEmpty) {
  test::write_file(path_, "{\"step\":1}\n{\"step\":2}\n");
  JsonLines lines(path_, 0);
  EXPECT_EQ(test::read_file(path_), "");
}

TEST_F(JsonLinesFile, SaysWhereItCannotWrite) {
  const std::filesystem::path path = directory_ / "absent" / "training.jsonl";
  EXPECT_THAT(test::error_of([&] { JsonLines(path, 0); }), HasSubstr(path.string()));
}

}  // namespace
}  // namespace tessera::train
