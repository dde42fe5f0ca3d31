#include "tessera/checkpoint/shard.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::checkpoint {
namespace {

using test::error_of;
using testing::HasSubstr;

/// Columns [column, column + width) of a 4 × 6 tensor whose elements are their row-major numbers.
struct Columns {
  std::vector<float> values;
  TensorBox box;
  Columns(std::string name, std::int64_t column, std::int64_t width) {
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t i = 0; i < width; ++i) values.push_back(static_cast<float>(row * 6 + column + i));
    box = {{std::move(name), DType::F32, {4, 6}}, {0, column}, {4, width}, reinterpret_cast<std::byte*>(values.data()), {width, 1}};
  }
};

TEST(ShardTest, OneBoxOfATensorPerFile) {
  const Columns a("w", 0, 2);
  const Columns b("w", 3, 1);
  const Columns c("v", 0, 6);
  const std::vector<ShardFile> files = plan_shard_files("model", {2, 8}, {a.box, b.box, c.box});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "model/shard-00003-of-00008.safetensors");
  EXPECT_EQ(files[1].path, "model/shard-00003-of-00008-part-00002.safetensors");
  EXPECT_EQ(files[0].boxes.size(), 2u);
}

struct TwoRanks {
  test::TemporaryDirectory directory;
  TensorRecords records;
  TwoRanks() {
    const auto operations = posix_file_operations();
    operations->create_directory(directory / "model");
    const Columns left("w", 0, 4);
    const Columns right("w", 4, 2);
    merge(records, write_shard_files(*operations, directory.path(), plan_shard_files("model", {0, 2}, {left.box})));
    merge(records, write_shard_files(*operations, directory.path(), plan_shard_files("model", {1, 2}, {right.box})));
  }
};

TEST(ShardTest, HeadersCarryTheOffsetsOfPyTorchsForm) {
  const TwoRanks saved;
  const formats::SafetensorsFile file(saved.directory.path() / "model/shard-00002-of-00002.safetensors");
  EXPECT_EQ(parse_json(file.metadata().at("DCP_SHARDING_INFO"), "metadata"), (Json{{"w", {{"saved_offsets", {0, 4}}}}}));
  EXPECT_EQ(file.metadata().at("DCP_VERSION"), "1.0");
  EXPECT_EQ(file.find("w")->shape, (std::vector<std::int64_t>{4, 2}));
}

TEST(ShardTest, ReadsAcrossTheBoxesOfSeveralRanks) {
  const TwoRanks saved;
  ASSERT_EQ(saved.records.at("w").boxes.size(), 2u);
  Columns target("w", 2, 3);
  const std::vector<float> expected = target.values;
  std::fill(target.values.begin(), target.values.end(), 0.0f);
  ShardReader reader(saved.directory.path(), saved.records);
  reader.read(target.box);
  EXPECT_EQ(target.values, expected);
}

TEST(ShardTest, OpensOnlyTheFilesThatHoldSomeOfTheBox) {
  const TwoRanks saved;
  std::filesystem::remove(saved.directory.path() / "model/shard-00002-of-00002.safetensors");
  Columns target("w", 1, 3);
  const std::vector<float> expected = target.values;
  std::fill(target.values.begin(), target.values.end(), 0.0f);
  ShardReader(saved.directory.path(), saved.records).read(target.box);
  EXPECT_EQ(target.values, expected);
}

TEST(ShardTest, AShardThatIsNotWhatTheManifestSaysIsRefused) {
  TwoRanks saved;
  Columns target("w", 0, 6);
  saved.records.at("w").dtype = DType::BF16;
  EXPECT_THAT(error_of([&] { ShardReader(saved.directory.path(), saved.records).read(target.box); }), HasSubstr("where the manifest says BF16"));
  std::filesystem::rename(saved.directory.path() / "model/shard-00002-of-00002.safetensors", saved.directory.path() / "model/elsewhere");
  saved.records.at("w").dtype = DType::F32;
  EXPECT_THAT(error_of([&] { ShardReader(saved.directory.path(), saved.records).read(target.box); }), HasSubstr("shard-00002-of-00002.safetensors"));
}

}  // namespace
}  // namespace tessera::checkpoint
