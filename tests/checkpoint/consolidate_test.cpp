#include "tessera/checkpoint/consolidate.h"

#include <gmock/gmock.h>

#include "checkpoint/small_run.h"
#include "tessera/core/json.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::SmallRun;
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

std::vector<float> read(const formats::TensorSource& source, const std::string& name) {
  std::vector<float> values(formats::num_elements(source.find(name)->shape));
  source.read(name, DType::F32, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(ConsolidateTest, GivesAHuggingFaceDirectoryWithTheSameWeights) {
  const Saved saved;
  const fs::path output = saved.directory / "out";
  const auto operations = posix_file_operations();
  consolidate(*operations, saved.checkpoint, output, {.max_shard_size = 100});
  EXPECT_TRUE(fs::exists(output / "model.safetensors.index.json"));
  EXPECT_EQ(read_json_file(output / "config.json").at("model_type"), "small");
  EXPECT_FALSE(fs::exists(output / "consolidate.sh"));
  const auto source = formats::open_huggingface_source(output);
  EXPECT_EQ(source->tensors().size(), 6u);
  for (const char* name : {"layers.0.up.weight", "layers.0.down.weight", "model.norm.weight"})
    EXPECT_EQ(read(*source, name), expected(saved.run, name)) << name;
  EXPECT_THAT(error_of([&] { consolidate(*operations, saved.checkpoint, output, {}); }), HasSubstr("exists already"));
}

TEST(ConsolidateTest, ConvertsTheDtypeAndSaysSo) {
  const Saved saved;
  const fs::path output = saved.directory / "out/";
  const auto operations = posix_file_operations();
  consolidate(*operations, saved.checkpoint, output, {.dtype = DType::F16});
  EXPECT_EQ(read_json_file(output / "config.json").at("torch_dtype"), "float16");
  EXPECT_EQ(formats::HuggingFaceDirectory(output).find("model.norm.weight")->info.dtype, DType::F16);
}

TEST(ConsolidateTest, ACheckpointIsATensorSource) {
  const Saved saved;
  const auto source = open_checkpoint_source(saved.checkpoint);
  for (const char* name : {"layers.0.up.weight", "layers.0.down.weight", "model.norm.weight"})
    EXPECT_EQ(read(*source, name), expected(saved.run, name)) << name;
  std::vector<float> rows(2 * 5);
  source->read_rows("layers.0.down.weight", 3, 2, DType::F32, std::as_writable_bytes(std::span(rows)));
  const std::vector<float> whole = expected(saved.run, "layers.0.down.weight");
  EXPECT_EQ(rows, std::vector<float>(whole.begin() + 15, whole.begin() + 25));
}

TEST(ConsolidateTest, OnlyTheDtypeOfAConfigChanges) {
  EXPECT_EQ(config_with_dtype(R"({"b": 1, "dtype": "float32", "a": [1.5]})", DType::BF16, "config.json"),
            "{\n  \"b\": 1,\n  \"dtype\": \"bfloat16\",\n  \"a\": [\n    1.5\n  ]\n}\n");
  EXPECT_THAT(config_with_dtype("{}", DType::F32, "config.json"), HasSubstr("\"torch_dtype\": \"float32\""));
  EXPECT_THAT(error_of([] { config_with_dtype("[]", DType::F32, "config.json"); }), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace tessera::checkpoint
