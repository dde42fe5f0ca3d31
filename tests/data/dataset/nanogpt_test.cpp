#include "tessera/data/dataset/nanogpt_dataset.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NanogptTest : public ::testing::Test {
 protected:
  template <class Stored>
  std::filesystem::path shard(const std::string& name, const std::vector<Stored>& tokens, std::int32_t magic = 278895051,
                              std::int32_t promised = -1) {
    std::vector<std::int32_t> header(256, 0);
    header[0] = magic;
    header[1] = 1;
    header[2] = promised >= 0 ? promised : static_cast<std::int32_t>(tokens.size());
    header[3] = magic == 278895051 ? sizeof(Stored) : 0;
    std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Stored));
    test::write_file(directory_ / name, bytes);
    return directory_ / name;
  }
  std::vector<std::vector<std::int64_t>> rows(const NanogptDataset& dataset) {
    std::vector<std::vector<std::int64_t>> result;
    for (std::int64_t index = 0; index < dataset.size(); ++index) {
      const Sample sample = dataset.sample(index);
      result.push_back(sample.input_ids);
      result.back().push_back(sample.labels.back());
    }
    return result;
  }
  test::TemporaryDirectory directory_;
};

TEST_F(NanogptTest, CutsShardsIntoPiecesOfBothFormats) {
  const auto narrow = shard<std::uint16_t>("a.bin", {1, 2, 3, 4, 5, 6, 7, 60000}, 20240520);
  const auto wide = shard<std::uint32_t>("b.bin", {100000, 2, 3});
  const NanogptDataset dataset({narrow, wide}, {.seq_length = 2});
  EXPECT_THAT(rows(dataset), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6), ElementsAre(100000, 2, 3)));
  EXPECT_EQ(NanogptDataset({narrow}, {.seq_length = 7}).sample(0).labels.back(), 60000);
  EXPECT_THAT(test::error_of([&] { NanogptDataset({narrow}, {.seq_length = 8}); }), HasSubstr("no shard holds a sample of 8 + 1 tokens"));
  const NanogptDataset small({wide}, {.seq_length = 2, .vocab_size = 50});
  EXPECT_THAT(test::error_of([&] { small.sample(0); }), HasSubstr("b.bin: token 0"));
}

TEST_F(NanogptTest, SamplesBeginWithTheBosToken) {
  const auto file = shard<std::uint16_t>("a.bin", {5, 0, 1, 2, 3, 0, 4, 0, 5, 6, 7, 0, 8});
  EXPECT_THAT(rows(NanogptDataset({file}, {.seq_length = 2, .align_to = 0})), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 4, 0)));
  const std::int32_t positions[] = {1, 7};  // an index that leaves some out is believed
  test::write_file(directory_ / "a.bos.idx", std::string_view(reinterpret_cast<const char*>(positions), sizeof positions));
  EXPECT_THAT(rows(NanogptDataset({file}, {.seq_length = 2, .align_to = 0})), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 5, 6)));
  const std::int32_t wrong[] = {1, 13};
  test::write_file(directory_ / "a.bos.idx", std::string_view(reinterpret_cast<const char*>(wrong), sizeof wrong));
  EXPECT_THAT(test::error_of([&] { NanogptDataset({file}, {.seq_length = 2, .align_to = 0}); }), HasSubstr("position 13 follows 1"));
}

TEST_F(NanogptTest, AShardThatShrinksIsAnErrorNotACrash) {
  const auto file = shard<std::uint16_t>("a.bin", {1, 2, 3, 4, 5, 6});
  const NanogptDataset dataset({file}, {.seq_length = 2});
  std::filesystem::resize_file(file, 1026);
  EXPECT_THAT(test::error_of([&] { dataset.sample(1); }), HasSubstr("a.bin: the file has become shorter while it is in use"));
}

TEST_F(NanogptTest, RefusesDamagedShards) {
  const auto error = [&](const std::filesystem::path& file) { return test::error_of([&] { NanogptDataset({file}, {.seq_length = 1}); }); };
  EXPECT_THAT(error(shard<std::uint16_t>("a.bin", {1, 2}, 17)), HasSubstr("not a NanoGPT shard: it begins with 17"));
  EXPECT_THAT(error(shard<std::uint16_t>("a.bin", {1, 2}, 20240520, 5)), HasSubstr("the file has 1028 bytes, its header promises 1034"));
  EXPECT_THAT(error(shard<std::uint64_t>("a.bin", {1, 2})), HasSubstr("2 tokens of 8 bytes"));
  test::write_file(directory_ / "short.bin", "abc");
  EXPECT_THAT(error(directory_ / "short.bin"), HasSubstr("short.bin"));
}

}  // namespace
}  // namespace tessera::data
