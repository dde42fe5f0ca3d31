#include <gmock/gmock.h>

#include "checkpoint/small_run.h"
#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;

TEST(Convert, DirectoryToBfloat16InShards) {
  const test::TemporaryDirectory directory;
  const std::string destination = directory / "converted";
  const auto result =
      run_tessera({"convert", test::test_data("goldens/qwen3").string(), destination, "--dtype", "bf16", "--max-shard-size", "100KB", "--json"});
  ASSERT_EQ(result.status, 0) << result.error;
  const Json answer = parse_json(result.output, "output");
  EXPECT_EQ(answer["model_type"], "qwen3");
  EXPECT_EQ(answer["dtype"], "bfloat16");
  EXPECT_TRUE(std::filesystem::exists(directory / "converted/model.safetensors.index.json"));

  const Json before = parse_json(run_tessera({"inspect", test::test_data("goldens/qwen3").string(), "--json"}).output, "output");
  const Json after = parse_json(run_tessera({"inspect", destination, "--json"}).output, "output");
  EXPECT_EQ(after["parameters"], before["parameters"]);
  EXPECT_EQ(after["tensors"].size(), before["tensors"].size());
  for (const Json& tensor : after["tensors"]) EXPECT_EQ(tensor["dtype"], "BF16");
}

TEST(Convert, TheDestinationIsNeverOverwritten) {
  const test::TemporaryDirectory directory;
  const auto result = run_tessera({"convert", test::test_data("goldens/qwen3").string(), directory.path()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("exists already"));
}

TEST(Convert, ThePlaceOfTheDestinationMustExist) {
  const test::TemporaryDirectory directory;
  const auto result = run_tessera({"convert", test::test_data("goldens/qwen3").string(), directory / "absent/out"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("there is no directory"));
  EXPECT_EQ(run_tessera({"convert", test::test_data("goldens/qwen3").string(), ""}).status, 2);
}

TEST(Convert, UnknownSourcesAndDtypesAreMendable) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "notes.txt", "hello");
  EXPECT_EQ(run_tessera({"convert", directory / "notes.txt", directory / "out"}).status, 2);
  EXPECT_EQ(run_tessera({"convert", directory / "absent.gguf", directory / "out"}).status, 2);
  const auto result = run_tessera({"convert", test::test_data("goldens/qwen3").string(), directory / "out", "--dtype", "int8"});
  EXPECT_THAT(result.error, HasSubstr("\"int8\" is not a dtype to store weights in"));
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
}

TEST(Convert, AShardHoldsSomething) {
  const test::TemporaryDirectory directory;
  for (const char* const size : {"0", "0GB", "-1"}) {
    const auto result = run_tessera({"convert", test::test_data("goldens/qwen3").string(), directory / "out", "--max-shard-size", size});
    EXPECT_EQ(result.status, 2) << size;
    EXPECT_THAT(result.error, HasSubstr("--max-shard-size"));
    EXPECT_FALSE(std::filesystem::exists(directory / "out"));
  }
}

// What consolidate.sh in a checkpoint calls.
TEST(Convert, ARunsCheckpoint) {
  const test::TemporaryDirectory directory;
  const test::SmallRun run;
  test::UnsyncedOperations operations;
  const auto checkpoint = checkpoint::CheckpointDirectory(operations, directory.path(), {}, test::alone()).save(run.request(1));
  const auto result = run_tessera({"convert", checkpoint / "model/..", directory / "out", "--dtype", "bf16", "--json"});
  ASSERT_EQ(result.status, 0) << result.error;
  const Json answer = parse_json(result.output, "output");
  EXPECT_EQ(answer["model_type"], "small");
  EXPECT_EQ(answer["dtype"], "bfloat16");
  EXPECT_EQ(answer["tensors"], 6);
  EXPECT_EQ(run_tessera({"convert", checkpoint, directory / "other", "--tokenizer", "x"}).status, 2);
}

TEST(Convert, Llama2cWithItsTokenizer) {
  TESSERA_SKIP_WITHOUT(test::shared_data("data/lm"));
  const test::TemporaryDirectory directory;
  const auto result = run_tessera({"convert", test::shared_data("data/lm/stories260K.bin").string(), directory / "stories", "--tokenizer",
                                   test::shared_data("data/lm/tok512.bin").string()});
  ASSERT_EQ(result.status, 0) << result.error;
  const auto tokens = run_tessera({"tokenize", directory / "stories", "--text", "Once upon a time", "--json"});
  ASSERT_EQ(tokens.status, 0) << tokens.error;
  EXPECT_EQ(parse_json(tokens.output, "output")["ids"], Json({403, 407, 261, 378}));
}

}  // namespace
}  // namespace tessera
