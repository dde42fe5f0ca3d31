#include "tessera/checkpoint/dcp_directory.h"

#include <gmock/gmock.h>

#include <limits>

#include "checkpoint/contents.h"
#include "checkpoint/small_run.h"
#include "tessera/formats/safetensors.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::TemporaryDirectory;
using testing::HasSubstr;

/// Rows of a [4, 3] tensor whose elements are their numbers, and a vector that every file repeats, in PyTorch's names and headers.
void write_dcp_file(const fs::path& path, std::int64_t first_row, std::int64_t num_rows) {
  const auto operations = posix_file_operations();
  const Json sharding = {{"w", {{"saved_offsets", {first_row, 0}}}}, {"norm", {{"saved_offsets", {0}}}}};
  formats::SafetensorsWriter writer(*operations, path, {{"w", DType::F32, {num_rows, 3}}, {"norm", DType::F32, {2}}},
                                    {{"DCP_SHARDING_INFO", sharding.dump()}, {"DCP_VERSION", "1.0"}, {"format", "pt"}});
  const std::vector<float> norm{7, 8};
  std::vector<float> rows;
  for (std::int64_t i = 0; i < num_rows * 3; ++i) rows.push_back(static_cast<float>(first_row * 3 + i));
  writer.write("norm", std::as_bytes(std::span(norm)));
  writer.write("w", std::as_bytes(std::span(rows)));
  writer.finish();
}

class DcpDirectoryTest : public testing::Test {
 protected:
  DcpDirectoryTest() {
    fs::create_directories(directory_ / "model/.hf_metadata");
    test::write_file(directory_ / "model/.hf_metadata/config.json", R"({"model_type": "small"})");
    write_dcp_file(directory_ / "model/shard-00001-model-00001-of-00001.safetensors", 0, 3);
    write_dcp_file(directory_ / "model/shard-00002-model-00001-of-00001.safetensors", 3, 1);
  }
  TemporaryDirectory directory_;
};

TEST_F(DcpDirectoryTest, ShardsBecomeAModel) {
  ASSERT_TRUE(is_dcp_directory(directory_.path()));
  ASSERT_TRUE(is_dcp_directory(directory_ / "model"));
  const DcpDirectory source = read_dcp_directory(directory_.path());
  const auto operations = posix_file_operations();
  consolidate(*operations, {source.path, &source.model, source.model_files}, directory_ / "out", {}, test::alone());
  const auto weights = formats::open_huggingface_source(directory_ / "out");
  EXPECT_EQ(test::values_of(*weights, "w"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(test::values_of(*weights, "norm"), (std::vector<float>{7, 8}));
  EXPECT_TRUE(fs::exists(directory_ / "out/config.json"));
  EXPECT_FALSE(is_dcp_directory(directory_ / "out"));
}

TEST_F(DcpDirectoryTest, AMissingShardIsAHole) {
  fs::remove(directory_ / "model/shard-00001-model-00001-of-00001.safetensors");
  EXPECT_THAT(error_of([&] { read_dcp_directory(directory_.path()); }), HasSubstr("w: the boxes hold 3 of 12 elements"));
}

TEST_F(DcpDirectoryTest, AModelNeedsItsConfig) {
  fs::remove_all(directory_ / "model/.hf_metadata");
  EXPECT_THAT(error_of([&] { read_dcp_directory(directory_.path()); }), HasSubstr("copy the config.json"));
  test::write_file(directory_ / "config.json", "{}");
  EXPECT_EQ(read_dcp_directory(directory_.path()).model_files, directory_.path());
}

TEST(DcpHeaderTest, ImpossibleBoxesAreRefused) {
  const auto refusal = [](const std::vector<std::int64_t>& shape, const Json& offset) {
    const Json sharding = {{"w", {{"saved_offsets", offset}}}};
    TensorRecords records;
    return error_of([&] { add_dcp_file(records, {{"w", DType::F32, shape, 0, 0}}, {{"DCP_SHARDING_INFO", sharding.dump()}}, "a.safetensors"); });
  };
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal({2}, {-1}), HasSubstr("a.safetensors: w: impossible saved_offsets"));
  EXPECT_THAT(refusal({2}, {huge}), HasSubstr("impossible saved_offsets"));
  EXPECT_THAT(refusal({0, huge}, {0, 1}), HasSubstr("impossible saved_offsets"));
  EXPECT_THAT(refusal({2}, {0, 0}), HasSubstr("impossible saved_offsets"));
  EXPECT_THAT(refusal({2}, "0"), HasSubstr("no saved_offsets"));
}

TEST(DcpPickleTest, IsRefusedWithTheRemedy) {
  const TemporaryDirectory directory;
  test::write_file(directory / ".metadata", "\x80\x02}q");
  test::write_file(directory / "__0_0.distcp", "");
  ASSERT_TRUE(is_dcp_directory(directory.path()));
  EXPECT_THAT(error_of([&] { read_dcp_directory(directory.path()); }),
              AllOf(HasSubstr(".metadata is a Python pickle"), HasSubstr("HuggingFaceStorageWriter")));
}

}  // namespace
}  // namespace tessera::checkpoint
