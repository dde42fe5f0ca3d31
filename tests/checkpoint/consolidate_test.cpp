#include "tessera/checkpoint/consolidate.h"

#include <gmock/gmock.h>

#include "checkpoint/contents.h"
#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"
#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/core/json.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::SmallRun;
using testing::AllOf;
using testing::HasSubstr;

struct Saved {
  test::TemporaryDirectory directory;
  SmallRun run{DType::BF16};
  fs::path checkpoint;
  Saved() {
    run.train(1);
    test::UnsyncedOperations operations;
    checkpoint = CheckpointDirectory(operations, directory / "checkpoints", {}, test::alone()).save(run.request(1));
  }
};

// As the checkpoint names them: q and k apart, "down" stored [in, out].
std::vector<float> expected(const SmallRun& run, const std::string& tensor) {
  const auto values = [](const at::Tensor& weight) {
    const at::Tensor flat = weight.to(at::kFloat).contiguous().flatten();
    return std::vector<float>(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  };
  auto& store = const_cast<SmallRun&>(run).store;
  if (tensor == "layers.0.up.weight") return values(store.parameter("gate_up.weight").weight.narrow(0, 4, 2));
  if (tensor == "layers.0.down.weight") return values(store.parameter("down.weight").weight.t());
  return values(store.parameter("norm.weight").weight);
}

TEST(ConsolidateTest, GivesAHuggingFaceDirectoryWithTheSameWeights) {
  const Saved saved;
  const fs::path output = saved.directory / "out";
  const auto operations = posix_file_operations();
  consolidate(*operations, saved.checkpoint, output, {.max_shard_size = 100}, test::alone());
  EXPECT_TRUE(fs::exists(output / "model.safetensors.index.json"));
  EXPECT_EQ(read_json_file(output / "config.json").at("model_type"), "small");
  EXPECT_FALSE(fs::exists(output / "consolidate.sh"));
  const auto source = formats::open_huggingface_source(output);
  EXPECT_EQ(source->tensors().size(), 6u);
  for (const char* name : {"layers.0.up.weight", "layers.0.down.weight", "model.norm.weight"})
    EXPECT_EQ(test::values_of(*source, name), expected(saved.run, name)) << name;
  EXPECT_THAT(error_of([&] { consolidate(*operations, saved.checkpoint, output, {}, test::alone()); }), HasSubstr("exists already"));
}

TEST(ConsolidateTest, ConvertsTheDtypeAndSaysSo) {
  const Saved saved;
  const fs::path output = saved.directory / "out/";
  const auto operations = posix_file_operations();
  consolidate(*operations, saved.checkpoint, output, {.dtype = DType::F16}, test::alone());
  EXPECT_EQ(read_json_file(output / "config.json").at("torch_dtype"), "float16");
  EXPECT_EQ(formats::HuggingFaceDirectory(output).find("model.norm.weight")->info.dtype, DType::F16);
}

// What came out would have hashes of its own, or none.
TEST(ConsolidateTest, DamageIsRefusedAndNotCopied) {
  const Saved saved;
  const fs::path output = saved.directory / "out";
  const auto operations = posix_file_operations();
  const auto consolidate_with = [&](Verify verify) { consolidate(*operations, saved.checkpoint, output, {.verify = verify}, test::alone()); };
  test::flip_a_bit(saved.checkpoint / "model/shard-00001-of-00001.safetensors");
  EXPECT_THAT(error_of([&] { consolidate_with(Verify::Full); }),
              AllOf(HasSubstr("model/shard-00001-of-00001.safetensors"), HasSubstr("model.norm.weight is damaged")));
  EXPECT_FALSE(fs::exists(output));
  consolidate_with(Verify::Off);  // as asked
  fs::remove_all(output);
  test::flip_a_bit(saved.checkpoint / "model/config.json");
  EXPECT_THAT(error_of([&] { consolidate_with(Verify::Off); }), HasSubstr("model/config.json"));
}

TEST(ConsolidateTest, RanksFindDamageTogether) {
  const Saved saved;
  test::flip_a_bit(saved.checkpoint / "model/shard-00001-of-00001.safetensors");
  const auto ends = test::run_forked(3, [&](comm::Communicator& group) -> std::int64_t {
    const auto operations = posix_file_operations();
    return error_of([&] { consolidate(*operations, saved.checkpoint, saved.directory / "out", {}, group); }).find("is damaged") != std::string::npos;
  });
  for (const test::RankEnd& end : ends) EXPECT_EQ(end.answer, 1);
  EXPECT_FALSE(fs::exists(saved.directory / "out"));
}

TEST(ConsolidateTest, ProgressCoversWhatIsHashedAndWritten) {
  const Saved saved;
  const auto operations = posix_file_operations();
  const Manifest manifest = read_manifest(saved.checkpoint);
  for (const Verify verify : {Verify::Full, Verify::Sizes}) {
    std::uint64_t bytes = 0;
    ConsolidateOptions options{.verify = verify, .progress = [&](std::uint64_t more) { bytes += more; }};
    const fs::path output = saved.directory / std::to_string(static_cast<int>(verify));
    consolidate(*operations, saved.checkpoint, output, options, test::alone());
    const std::uint64_t header = fs::file_size(output / "model.safetensors") - 2 * 105;  // of 105 bf16 elements
    EXPECT_EQ(bytes, bytes_to_consolidate(manifest, options, 1) + header);
  }
}

TEST(ConsolidateTest, ACheckpointIsATensorSource) {
  const Saved saved;
  const auto source = open_checkpoint_source(saved.checkpoint);
  for (const char* name : {"layers.0.up.weight", "layers.0.down.weight", "model.norm.weight"})
    EXPECT_EQ(test::values_of(*source, name), expected(saved.run, name)) << name;
  std::vector<float> rows(2 * 5);
  source->read_rows("layers.0.down.weight", 3, 2, DType::F32, std::as_writable_bytes(std::span(rows)));
  const std::vector<float> whole = expected(saved.run, "layers.0.down.weight");
  EXPECT_EQ(rows, std::vector<float>(whole.begin() + 15, whole.begin() + 25));
}

// Of every division: contiguous parts that cover all bytes, begin at blocks, and are equal but for a block.
TEST(ConsolidateTest, PartsCoverTheFilesEvenly) {
  const std::vector<std::uint64_t> sizes{5 * kBlockBytes + 7, 100, kBlockBytes, 0, 3 * kBlockBytes - 1};
  for (const int num_ranks : {1, 2, 3, 7, 12, 20}) {
    std::vector<std::uint64_t> next(sizes.size(), 0);
    std::size_t file = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      std::uint64_t blocks = 0;
      for (const FilePart& part : parts_of_rank(sizes, rank, num_ranks)) {
        EXPECT_GE(part.file, file);
        file = part.file;
        EXPECT_EQ(part.begin, next[file]);
        EXPECT_EQ(part.begin % kBlockBytes, 0u);
        EXPECT_LT(part.begin, part.end);
        blocks += (part.end - part.begin + kBlockBytes - 1) / kBlockBytes;
        next[file] = part.end;
      }
      EXPECT_LE(blocks, 11u / static_cast<unsigned>(num_ranks) + 1);
    }
    EXPECT_EQ(next, sizes) << num_ranks;
  }
}

/// A checkpoint of two ranks whose tensors are several blocks of a file.
struct Large {
  test::TemporaryDirectory directory;
  std::vector<float> weights = std::vector<float>(700 * 1001);
  TensorRecords records;
  Large() {
    const auto operations = posix_file_operations();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 65537) / 3.0F;
    fs::create_directory(directory / "model");
    test::write_file(directory / "model/config.json", R"({"model_type": "large"})");
    for (const std::int64_t rank : {0, 1}) {  // rows cut unevenly; a vector at one rank alone
      const std::int64_t first = rank * 333;
      const std::int64_t rows = rank == 0 ? 333 : 367;
      std::vector<TensorBox> boxes{{{"w", DType::F32, {700, 1001}}, {first, 0}, {rows, 1001}, bytes_at(first * 1001), {1001, 1}}};
      if (rank == 1) boxes.push_back({{"v", DType::F32, {300'000}}, {0}, {300'000}, bytes_at(0), {1}});
      merge(records, write_shard_files(*operations, directory.path(), plan_shard_files("model", {rank, 2}, boxes)));
    }
  }
  std::byte* bytes_at(std::int64_t element) { return reinterpret_cast<std::byte*>(weights.data() + element); }
};

TEST(ConsolidateTest, RanksWriteTheSameFilesTogether) {
  Large large;
  const ConsolidateSource source{large.directory.path(), &large.records, large.directory / "model"};
  for (const ConsolidateOptions& options : {ConsolidateOptions{}, ConsolidateOptions{.max_shard_size = 2'000'000, .dtype = DType::BF16}}) {
    const test::TemporaryDirectory outputs;
    const auto operations = posix_file_operations();
    consolidate(*operations, source, outputs / "1", options, test::alone());
    const std::vector<float> values = test::values_of(*formats::open_huggingface_source(outputs / "1"), "v");
    const std::vector<float> expected = test::values_of(*open_records_source(source.root, large.records), "v");
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], options.dtype ? expected[i] / 256 : 0.0F) << i;
    for (const int num_ranks : {2, 3, 8}) {
      const fs::path output = outputs / std::to_string(num_ranks);
      const auto ends = test::run_forked(num_ranks, [&](comm::Communicator& group) -> std::int64_t {
        std::uint64_t written = 0;
        ConsolidateOptions counted = options;
        counted.progress = [&](std::uint64_t bytes) { written += bytes; };
        consolidate(*operations, source, output, counted, group);
        return static_cast<std::int64_t>(written);
      });
      for (const test::RankEnd& end : ends) {
        EXPECT_EQ(end.status, 0);
        EXPECT_TRUE(end.answer > 0 || num_ranks > 3) << "a rank wrote nothing of three or four blocks";
      }
      for (const fs::directory_entry& entry : fs::directory_iterator(outputs / "1"))
        EXPECT_EQ(test::read_file(output / entry.path().filename()), test::read_file(entry.path())) << entry.path();
    }
  }
}

TEST(ConsolidateTest, TheHashesOfPartsAreTheHashOfTheFile) {
  Large large;
  fs::create_directory(large.directory / "out");
  const auto operations = posix_file_operations();
  const auto records = write_consolidated(*operations, {large.directory.path(), &large.records, {}}, large.directory / "out",
                                          {.max_shard_size = 2'000'000}, test::alone());
  ASSERT_EQ(records.size(), 2u);
  for (const auto& [name, record] : records) {
    EXPECT_EQ(record.size, fs::file_size(large.directory / "out" / name));
    EXPECT_EQ(record.xxh3, hash_of_file(large.directory / "out" / name));
  }
}

TEST(ConsolidateTest, OnlyTheDtypeOfAConfigChanges) {
  EXPECT_EQ(config_with_dtype(R"({"b": 1, "dtype": "float32", "a": [1.5]})", DType::BF16, "config.json"),
            "{\n  \"b\": 1,\n  \"dtype\": \"bfloat16\",\n  \"a\": [\n    1.5\n  ]\n}\n");
  EXPECT_THAT(config_with_dtype("{}", DType::F32, "config.json"), HasSubstr("\"torch_dtype\": \"float32\""));
  EXPECT_THAT(error_of([] { config_with_dtype("[]", DType::F32, "config.json"); }), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace tessera::checkpoint
