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
  std::filesystem::create_directory(directory / "empty");
  const std::string message = test::error_of([&] { find_data_files({"./missing.jsonl", (directory / "empty").string()}); });
  EXPECT_THAT(message, HasSubstr("./missing.jsonl: no such file"));
  EXPECT_THAT(message, HasSubstr("empty: holds no data files"));
  EXPECT_THAT(test::error_of([] { find_data_files({}); }), HasSubstr("no data files"));
}

TEST(FindDataFiles, AFoldersFilesOfTheSplit) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "data/dev");
  for (const char* name :
       {"data/train-00001.parquet", "data/train-00000.parquet", "data/dev/a.jsonl.gz", "data/test.jsonl", "README.md", "dataset_info.json"})
    test::write_file(directory / name, "x");
  const std::string folder = directory.path();
  EXPECT_THAT(find_data_files({folder}, "train[:10]"), ElementsAre(directory / "data/train-00000.parquet", directory / "data/train-00001.parquet"));
  EXPECT_THAT(find_data_files({folder}, "validation"), ElementsAre(directory / "data/dev/a.jsonl.gz"));
  EXPECT_EQ(find_data_files({folder}).size(), 4U);
  EXPECT_THAT(test::error_of([&] { find_data_files({folder}, "train_sft"); }), HasSubstr("holds no data files of split 'train_sft'"));
}

TEST(FilesOfSplit, SplitsStandBetweenAnythingButLetters) {
  EXPECT_THAT(files_of_split({"trainer.jsonl", "constrain.jsonl"}, "train"),
              ElementsAre("trainer.jsonl", "constrain.jsonl"));  // none speaks of a split
  EXPECT_THAT(files_of_split({"train_sft.jsonl", "test_sft.jsonl"}, "train_sft"), ElementsAre("train_sft.jsonl"));
  EXPECT_THAT(files_of_split({"x-val.json", "x-train.json"}, "validation"), ElementsAre("x-val.json"));
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
