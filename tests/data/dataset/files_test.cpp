#include "tessera/data/dataset/files.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FindDataFiles, TakesFilesAndPatterns) {
  const test::TemporaryDirectory directory;
  for (const char* name : {"b.jsonl", "a.jsonl", "c.txt"}) test::write_file(directory / name, "x");
  const auto files = find_data_files({(directory / "c.txt").string(), (directory / "*.jsonl").string()});
  EXPECT_THAT(files, ElementsAre(directory / "c.txt", directory / "a.jsonl", directory / "b.jsonl"));
}

TEST(FindDataFiles, SaysWhatIsMissing) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "a.parquet", "PAR1");
  const std::string message = test::error_of(
      [&] { find_data_files({"rajpurkar/squad", "squad", "./missing.jsonl", directory.path().string(), (directory / "a.parquet").string()}); });
  EXPECT_THAT(message, HasSubstr("'rajpurkar/squad' is a Hub name and not on disk"));
  EXPECT_THAT(message, HasSubstr("'squad' is a Hub name and not on disk"));
  EXPECT_THAT(message, HasSubstr("./missing.jsonl: no such file"));
  EXPECT_THAT(message, HasSubstr("a directory of data files is not supported yet"));
  EXPECT_THAT(message, HasSubstr(".parquet files are not supported yet"));
  EXPECT_THAT(test::error_of([] { find_data_files({}); }), HasSubstr("no data files"));
}

void expect_slice(std::string_view split, std::optional<std::int64_t> limit, std::int64_t begin, std::int64_t end) {
  const IndexRange range = slice_of_split(split, limit, 200);
  EXPECT_EQ(range.begin, begin) << split;
  EXPECT_EQ(range.end, end) << split;
}

TEST(SliceOfSplit, ReadsWhatHuggingFaceReads) {
  expect_slice("", std::nullopt, 0, 200);
  expect_slice("train", std::nullopt, 0, 200);
  expect_slice("train[:128]", std::nullopt, 0, 128);
  expect_slice("train[10:20]", std::nullopt, 10, 20);
  expect_slice("train[-5:]", std::nullopt, 195, 200);
  expect_slice("train[:10%]", std::nullopt, 0, 20);
  expect_slice("train[99%:]", std::nullopt, 198, 200);
  expect_slice("train[:1000]", std::nullopt, 0, 200);
  expect_slice("train[30:20]", std::nullopt, 30, 30);
  expect_slice("train[10:]", 5, 10, 15);
}

TEST(SliceOfSplit, RefusesOtherForms) {
  for (const char* split : {"train[", "train[5]", "train[a:b]", "train[:3]+test[:3]", "train[:3x%]"}) {
    EXPECT_THAT(test::error_of([&] { slice_of_split(split, std::nullopt, 10); }), HasSubstr("is not a split")) << split;
  }
}

}  // namespace
}  // namespace tessera::data
