#include "tessera/formats/huggingface.h"

#include <gmock/gmock.h>

#include <set>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::formats {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Writes a safetensors file of one-element F32 tensors.
void write_weights(const fs::path& path, const std::vector<std::string>& names) {
  fs::create_directories(path.parent_path());
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::F32, {1}});
  const auto operations = posix_file_operations();
  SafetensorsWriter writer(*operations, path, specs);
  const std::vector<std::byte> zero(4);
  for (const TensorInfo& info : writer.tensors()) writer.write(info.name, zero);
  writer.finish();
}

void write_index(const fs::path& directory, const std::string& weight_map) {
  test::write_file(directory / "model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + weight_map + "}");
}

TEST(HuggingFaceDirectory, ReadsShardsThatTransformersWrote) {
  const auto path = test::test_data("formats/sharded");
  const HuggingFaceDirectory directory(path);
  EXPECT_EQ(directory.files().size(), 4U);
  EXPECT_EQ(directory.tensors().size(), 21U);
  const HuggingFaceDirectory::Entry* head = directory.find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(directory.files()[head->file].path().filename(), "model-00004-of-00004.safetensors");
  EXPECT_EQ(directory.bytes(*head).size(), 32U * 8 * 4);
  EXPECT_EQ(directory.find("lm_head.bias"), nullptr);
  EXPECT_EQ(read_model_config(path).at("model_type"), "llama");
}

TEST(WriteShards, ReproducesTheFilesOfTransformers) {
  const auto path = test::test_data("formats/sharded");
  const HuggingFaceDirectory reference(path);
  // The order of the model's parameters; of the shards only the sizes are given.
  std::vector<TensorSpec> specs{reference.find("model.embed_tokens.weight")->info.spec()};
  for (const std::string layer : {"0", "1"}) {
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
                             "mlp.down_proj", "input_layernorm", "post_attention_layernorm"})
      specs.push_back(reference.find("model.layers." + layer + "." + name + ".weight")->info.spec());
  }
  specs.push_back(reference.find("model.norm.weight")->info.spec());
  specs.push_back(reference.find("lm_head.weight")->info.spec());

  const test::TemporaryDirectory copy;
  const auto operations = posix_file_operations();
  const ShardPlan plan = plan_shards(specs, 2500);
  write_shards(*operations, copy.path(), plan, [&](const TensorSpec& tensor, const ByteSink& sink) {
    const auto bytes = reference.bytes(*reference.find(tensor.name));
    sink(bytes.first(4));
    sink(bytes.subspan(4));
  });
  std::set<std::string> written;
  for (const auto& entry : fs::directory_iterator(copy.path())) {
    written.insert(entry.path().filename());
    EXPECT_EQ(test::read_file(entry.path()), test::read_file(path / entry.path().filename())) << entry.path().filename();
  }
  EXPECT_THAT(written, ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                                   "model-00004-of-00004.safetensors", "model.safetensors.index.json"));
}

TEST(PlanShards, FillsInOrderAndSetsLargeTensorsApart) {
  const auto tensor = [](const char* name, std::int64_t bytes) { return TensorSpec{name, DType::U8, {bytes}}; };
  // The example of huggingface_hub: [6, 6, 2, 6, 2, 2] with at most 10 gives [6], [6, 2], [6, 2, 2]; one of 11 goes before the shard being filled.
  const ShardPlan plan =
      plan_shards({tensor("a", 6), tensor("b", 6), tensor("c", 2), tensor("large", 11), tensor("d", 6), tensor("e", 2), tensor("f", 2)}, 10);
  std::vector<std::vector<std::string>> names;
  for (const auto& shard : plan.shards) {
    names.emplace_back();
    for (const TensorSpec& spec : shard.tensors) names.back().push_back(spec.name);
  }
  EXPECT_THAT(names, ElementsAre(ElementsAre("a"), ElementsAre("large"), ElementsAre("b", "c"), ElementsAre("d", "e", "f")));
  EXPECT_EQ(plan.shards[1].file_name, "model-00002-of-00004.safetensors");
  EXPECT_EQ(plan.total_size, 35U);
}

TEST(PlanShards, OneShardHasNoNumber) {
  EXPECT_EQ(plan_shards({{"a", DType::F32, {3}}}).shards[0].file_name, "model.safetensors");
  EXPECT_EQ(plan_shards({}).shards.size(), 1U);
}

TEST(WriteShards, WritesNoIndexForOneFile) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  write_shards(*operations, directory.path(), plan_shards({{"a", DType::U8, {2}}}),
               [](const TensorSpec&, const ByteSink& sink) { sink(std::as_bytes(std::span("ab", 2))); });
  EXPECT_FALSE(fs::exists(directory / "model.safetensors.index.json"));
  EXPECT_EQ(HuggingFaceDirectory(directory.path()).tensors().size(), 1U);
}

TEST(HuggingFaceDirectory, RefusesDirectoriesWithoutWeights) {
  const test::TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { HuggingFaceDirectory(directory / "missing"); }), HasSubstr("no such directory"));
  EXPECT_THAT(error_of([&] { HuggingFaceDirectory{directory.path()}; }),
              HasSubstr("holds neither model.safetensors nor model.safetensors.index.json"));
  test::write_file(directory / "pytorch_model.bin", "x");
  EXPECT_THAT(error_of([&] { HuggingFaceDirectory{directory.path()}; }), HasSubstr("this weight format is not supported"));
  EXPECT_THAT(error_of([&] { HuggingFaceDirectory(directory / "pytorch_model.bin"); }), HasSubstr("not a directory"));
}

TEST(HuggingFaceDirectory, NamesEveryMissingShardAtOnce) {
  const test::TemporaryDirectory directory;
  write_index(directory.path(), R"({"a":"one.safetensors","b":"two.safetensors","c":"three.safetensors"})");
  write_weights(directory / "three.safetensors", {"c"});
  const std::string error = error_of([&] { HuggingFaceDirectory{directory.path()}; });
  EXPECT_THAT(error, HasSubstr("one.safetensors"));
  EXPECT_THAT(error, HasSubstr("two.safetensors"));
  EXPECT_THAT(error, Not(HasSubstr("three.safetensors")));
}

TEST(HuggingFaceDirectory, ComparesTheIndexWithTheShards) {
  const test::TemporaryDirectory directory;
  write_index(directory.path(), R"({"a":"one.safetensors","b":"two.safetensors","missing":"two.safetensors"})");
  write_weights(directory / "one.safetensors", {"a", "b", "surplus"});
  write_weights(directory / "two.safetensors", {"b"});
  const std::string error = error_of([&] { HuggingFaceDirectory{directory.path()}; });
  EXPECT_THAT(error, HasSubstr("one.safetensors: tensor \"b\" should be in two.safetensors"));
  EXPECT_THAT(error, HasSubstr("tensor \"surplus\" is not in model.safetensors.index.json"));
  EXPECT_THAT(error, HasSubstr("tensor \"missing\" is not in two.safetensors"));
}

TEST(HuggingFaceDirectory, RefusesPathsOutsideTheDirectory) {
  const test::TemporaryDirectory directory;
  write_index(directory.path(), R"({"a":"../one.safetensors","b":"/etc/passwd","c":"","d":3,"e":"sub/../../x"})");
  const std::string error = error_of([&] { HuggingFaceDirectory{directory.path()}; });
  EXPECT_THAT(error, HasSubstr("\"../one.safetensors\" lies outside"));
  EXPECT_THAT(error, HasSubstr("\"/etc/passwd\" lies outside"));
  EXPECT_THAT(error, HasSubstr("\"sub/../../x\" lies outside"));
  EXPECT_THAT(error, HasSubstr("tensor \"c\""));
  EXPECT_THAT(error, HasSubstr("the file of tensor \"d\" is not a string"));
  write_index(directory.path(), "[]");
  EXPECT_THAT(error_of([&] { HuggingFaceDirectory{directory.path()}; }), HasSubstr("\"weight_map\" is missing or is not an object"));
}

TEST(ModelConfig, IsAnObjectThatExists) {
  const test::TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { read_model_config(directory.path()); }), HasSubstr("config.json: cannot read the file"));
  test::write_file(directory / "config.json", "[1]");
  EXPECT_THAT(error_of([&] { read_model_config(directory.path()); }), HasSubstr("not a JSON object"));
}

TEST(TokenizerFiles, ListsThoseThatExist) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "tokenizer.json", "{}");
  test::write_file(directory / "tokenizer.model", "");
  const TokenizerFiles files = find_tokenizer_files(directory.path());
  EXPECT_TRUE(files.tokenizer_json.has_value());
  EXPECT_FALSE(files.vocab_json.has_value());
  EXPECT_THAT(files.existing(), ElementsAre(directory / "tokenizer.json", directory / "tokenizer.model"));
}

}  // namespace
}  // namespace tessera::formats
