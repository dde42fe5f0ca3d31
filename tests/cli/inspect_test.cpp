#include <gmock/gmock.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/formats/safetensors.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;

/// A directory with a config.json and two tensors, F32 [2, 3] and BF16 [4].
void write_model(const std::filesystem::path& directory) {
  test::write_file(directory / "config.json", R"({"model_type": "llama", "hidden_size": 3})");
  const auto operations = posix_file_operations();
  formats::SafetensorsWriter writer(*operations, directory / "model.safetensors", {{"a", DType::F32, {2, 3}}, {"b", DType::BF16, {4}}},
                                    {{"format", "pt"}});
  for (const formats::TensorInfo& info : writer.tensors()) writer.write(info.name, std::vector<std::byte>(info.num_bytes()));
  writer.finish();
}

TEST(Inspect, DirectoryForPeople) {
  const test::TemporaryDirectory directory;
  write_model(directory.path());
  const auto result = run_tessera({"inspect", directory.path()});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("parameters  10 (10)"));
  EXPECT_THAT(result.output, HasSubstr("tensors     2 (1 BF16, 1 F32)"));
  EXPECT_THAT(result.output, HasSubstr("model_type                             \"llama\""));
  EXPECT_THAT(result.output, HasSubstr("  a  F32   [2, 3]"));
}

TEST(Inspect, SafetensorsFileForPrograms) {
  const test::TemporaryDirectory directory;
  write_model(directory.path());
  const auto result = run_tessera({"inspect", (directory / "model.safetensors").string(), "--json"});
  EXPECT_EQ(result.status, 0) << result.error;
  const Json answer = parse_json(result.output, "output");
  EXPECT_EQ(answer["parameters"], 10);
  EXPECT_EQ(answer["bytes"], 32);
  EXPECT_EQ(answer["metadata"]["format"], "pt");
  EXPECT_EQ(answer["tensors"][0]["shape"], Json::array({2, 3}));
}

TEST(Inspect, WhatIsNotThereOrUnknownIsMendable) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "notes.txt", "hello");
  EXPECT_EQ(run_tessera({"inspect", (directory / "absent.gguf").string()}).status, 2);
  const auto result = run_tessera({"inspect", (directory / "notes.txt").string()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("unknown kind of file"));
}

TEST(Inspect, AModelThatCanBeRunHasNoProblems) {
  const Json answer = parse_json(run_tessera({"inspect", test::test_data("goldens/qwen3").string(), "--json"}).output, "output");
  EXPECT_EQ(answer["metadata"]["config.json"]["model_type"], "qwen3");
  EXPECT_EQ(answer["problems"], Json::array());
}

/// What is not a model for us is shown all the same, and said.
TEST(Inspect, SaysWhyAModelCannotBeRun) {
  const test::TemporaryDirectory directory;
  std::filesystem::copy(test::test_data("goldens/qwen3"), directory.path(), std::filesystem::copy_options::recursive);
  Json config = parse_json(test::read_file(directory / "config.json"), "config.json");
  config["vocab_size"] = 300;
  test::write_file(directory / "config.json", config.dump());
  const auto text = run_tessera({"inspect", directory.path().string()});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.output, HasSubstr("tessera cannot run this model\nerror: "));
  EXPECT_THAT(text.output, HasSubstr("model.embed_tokens.weight: [320, 64] in the file, [300, 64] in the model"));
  config["model_type"] = "mamba";
  test::write_file(directory / "config.json", config.dump());
  EXPECT_THAT(run_tessera({"inspect", directory.path().string(), "--json"}).output, HasSubstr("mamba"));
}

}  // namespace
}  // namespace tessera
