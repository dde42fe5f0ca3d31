#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "train/small_recipe.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

using test::run_tessera;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// A run of four steps that saved after the second and the last.
class CheckpointCommands : public testing::Test {
 protected:
  CheckpointCommands() {
    test::write_file(directory_ / "recipe.yaml", train::test::small_recipe(directory_.path()));
    const auto result = run_tessera(
        {"train", directory_ / "recipe.yaml", "--step_scheduler.max_steps=4", "--step_scheduler.ckpt_every_steps=2", "--model.torch_dtype=bfloat16"});
    EXPECT_EQ(result.status, 0) << result.error;
  }
  static Json answer(const test::CommandResult& result) { return parse_json(result.output, "output"); }
  fs::path run() const { return directory_ / "checkpoints"; }
  fs::path first() const { return run() / "epoch_0_step_2"; }

  test::TemporaryDirectory directory_;
};

TEST_F(CheckpointCommands, List) {
  const auto text = run_tessera({"checkpoint", "list", run()});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.output, AllOf(StartsWith("epoch_0_step_2"), HasSubstr("epoch_0_step_4"), HasSubstr("LATEST"), HasSubstr("1 rank")));
  const Json rows = answer(run_tessera({"checkpoint", "list", run(), "--json"}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["step"], 4);
  EXPECT_THAT(rows[1]["links"], testing::Contains("LATEST"));
  test::write_file(first() / "manifest.json", "{}");
  EXPECT_THAT(run_tessera({"checkpoint", "list", run()}).output, HasSubstr("damaged: the manifest is"));
  fs::remove(first() / "manifest.json");
  fs::create_symlink("manifest.json", first() / "manifest.json");  // leads to itself: cannot be looked at
  EXPECT_THAT(run_tessera({"checkpoint", "list", run()}).output, HasSubstr("damaged: cannot read the file"));
  EXPECT_EQ(run_tessera({"checkpoint", "list", directory_ / "absent"}).status, 2);
}

TEST_F(CheckpointCommands, Inspect) {
  const auto text = run_tessera({"checkpoint", "inspect", run() / "LATEST", "--tensors"});
  EXPECT_THAT(text.output, AllOf(HasSubstr("gpt2: 2 layers"), HasSubstr("exp_avg_sq.transformer.wte.weight  F32 [80, 64]"),
                                 HasSubstr("model/shard-00001-of-00001.safetensors")));
  const Json json = answer(run_tessera({"checkpoint", "inspect", run() / "LATEST", "--json"}));
  EXPECT_EQ(json["step"], 4);
  EXPECT_FALSE(json.contains("tensors"));
  EXPECT_THAT(run_tessera({"checkpoint", "inspect", run()}).error, HasSubstr("not a complete checkpoint"));
}

TEST_F(CheckpointCommands, Verify) {
  EXPECT_THAT(run_tessera({"checkpoint", "verify", first()}).output, HasSubstr("whole"));
  const fs::path shard = first() / "optim/shard-00001-of-00001.safetensors";
  std::string bytes = test::read_file(shard);
  bytes.back() ^= 1;
  test::write_file(shard, bytes);
  EXPECT_EQ(run_tessera({"checkpoint", "verify", first(), "--sizes"}).status, 0);
  const auto damaged = run_tessera({"checkpoint", "verify", first()});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.error, AllOf(HasSubstr("optim/shard-00001-of-00001.safetensors"), HasSubstr("is damaged")));
  const auto json = run_tessera({"checkpoint", "verify", first(), "--json"});
  EXPECT_EQ(json.status, 2);
  EXPECT_EQ(answer(json)["whole"], false);
  EXPECT_EQ(answer(json)["problems"].size(), 1u);
}

// The script finds its checkpoint wherever it lies, and passes the rest of its arguments on to the program.
TEST_F(CheckpointCommands, TheScriptInACheckpointConsolidatesIt) {
  const fs::path moved = directory_ / "a folder/with spaces";
  fs::create_directory(moved.parent_path());
  fs::rename(first(), moved);
  const fs::path program = directory_ / "program";  // says what it was asked for
  test::write_file(program, "#!/bin/sh\nprintf '%s\\n' \"$@\" >'" + (directory_ / "asked").string() + "'\n");
  fs::permissions(program, fs::perms::owner_all);
  const std::string call = fmt::format("cd / && TESSERA='{}' '{}' --dtype float32", program.string(), (moved / "model/consolidate.sh").string());
  ASSERT_EQ(std::system(call.c_str()), 0);
  std::vector<std::string> asked = split(test::read_file(directory_ / "asked"), '\n');
  asked.pop_back();  // what follows the last line
  const auto result = run_tessera(asked);
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(read_json_file(moved / "model/consolidated/config.json")["torch_dtype"], "float32");
}

TEST_F(CheckpointCommands, VerifyTellsTheCheckpointFromItsConsolidatedCopy) {
  const auto result = run_tessera({"train", directory_ / "recipe.yaml", "--step_scheduler.max_steps=1", "--checkpoint.save_consolidated=final",
                                   "--checkpoint.checkpoint_dir=" + (directory_ / "other").string()});
  ASSERT_EQ(result.status, 0) << result.error;
  const fs::path checkpoint = directory_ / "other/LATEST";
  ASSERT_EQ(run_tessera({"checkpoint", "verify", checkpoint}).status, 0);
  fs::remove_all(checkpoint / "model/consolidated");
  ASSERT_EQ(run_tessera({"checkpoint", "consolidate", checkpoint, checkpoint / "model/consolidated"}).status, 0);
  EXPECT_EQ(run_tessera({"checkpoint", "verify", checkpoint}).status, 0) << "the same again";
  fs::remove_all(checkpoint / "model/consolidated");
  ASSERT_EQ(run_tessera({"checkpoint", "consolidate", checkpoint, checkpoint / "model/consolidated", "--dtype", "bfloat16"}).status, 0);
  const auto text = run_tessera({"checkpoint", "verify", checkpoint});
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.output, HasSubstr("whole"));
  EXPECT_THAT(text.error, AllOf(HasSubstr("model/consolidated/model.safetensors"), HasSubstr("the checkpoint itself is whole")));
  const Json json = answer(run_tessera({"checkpoint", "verify", checkpoint, "--json"}));
  EXPECT_EQ(json["whole"], true);
  EXPECT_EQ(json["problems"].size(), 0U);
  EXPECT_EQ(json["consolidated_problems"].size(), 2U);  // weights and config.json
}

TEST_F(CheckpointCommands, ConsolidateAndDiff) {
  const fs::path model = directory_ / "model";
  EXPECT_EQ(run_tessera({"checkpoint", "consolidate", first(), model}).status, 0);
  const auto same = run_tessera({"checkpoint", "diff", first(), model});
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr(", 0 differ"));
  const Json narrowed = answer(run_tessera({"checkpoint", "consolidate", first(), directory_ / "wide", "--dtype", "float32", "--json"}));
  EXPECT_EQ(read_json_file(directory_ / "wide/config.json")["torch_dtype"], "float32");
  EXPECT_GT(narrowed["bytes"], 0);
  const auto differ = run_tessera({"checkpoint", "diff", first(), run() / "LATEST", "--json"});
  EXPECT_EQ(differ.status, 1);
  EXPECT_EQ(answer(differ)["same"], false);
  EXPECT_THAT(answer(differ)["state"].get<std::vector<std::string>>(), testing::Contains("step: 2 in A, 4 in B"));
  EXPECT_EQ(run_tessera({"checkpoint", "consolidate", first(), model}).status, 2);
}

TEST_F(CheckpointCommands, Reshard) {
  const fs::path output = directory_ / "resharded";
  const auto result =
      run_tessera({"checkpoint", "reshard", first(), output, "--nproc", "4", "--distributed.strategy=fsdp2", "--distributed.dp_replicate_size", "2"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("4 ranks (dp_replicate 2, dp_shard 2)"));
  EXPECT_EQ(run_tessera({"checkpoint", "verify", output}).status, 0);
  EXPECT_EQ(run_tessera({"checkpoint", "diff", first(), output}).status, 0);
  EXPECT_TRUE(checkpoint::read_manifest(output).files.contains("optim/shard-00004-of-00004.safetensors"));
  const auto split = run_tessera({"checkpoint", "reshard", output, directory_ / "split", "--nproc", "4", "--distributed.tp_size=2"});
  EXPECT_EQ(split.status, 0) << split.error;
  EXPECT_EQ(run_tessera({"checkpoint", "diff", first(), directory_ / "split"}).status, 0);
  const auto refused = [&](const std::string& option) {
    return run_tessera({"checkpoint", "reshard", first(), directory_ / "x", "--nproc", "4", option}).error;
  };
  EXPECT_THAT(refused("--distributed.dp_replicate_size=3"), HasSubstr("3"));
  EXPECT_THAT(refused("--optimizer.lr=3"), HasSubstr("unknown option --optimizer.lr=3"));
  EXPECT_THAT(refused("--verify=some"), HasSubstr("--verify: unknown value \"some\""));
  // A run goes on from it in the same place.
  const auto on = run_tessera({"train", directory_ / "recipe.yaml", "--step_scheduler.max_steps=4", "--model.torch_dtype=bfloat16",
                               "--checkpoint.restore_from=" + output.string(), "--checkpoint.checkpoint_dir=" + (directory_ / "on").string()});
  EXPECT_EQ(on.status, 0) << on.error;
  EXPECT_EQ(run_tessera({"checkpoint", "diff", run() / "epoch_0_step_4", directory_ / "on/epoch_0_step_4"}).status, 0);
}

// No command makes something new, with no hashes or hashes of its own, of damaged bytes.
TEST_F(CheckpointCommands, DamageIsNotCopied) {
  const fs::path shard = first() / "model/shard-00001-of-00001.safetensors";
  std::string bytes = test::read_file(shard);
  bytes.back() ^= 1;
  test::write_file(shard, bytes);
  const std::string out = directory_ / "out";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"checkpoint", "consolidate", first(), out},
                                                  {"checkpoint", "reshard", first(), out, "--nproc", "2"},
                                                  {"convert", first(), out}}) {
    const auto refused = run_tessera(command);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.error, AllOf(HasSubstr("model/shard-00001-of-00001.safetensors"), HasSubstr("is damaged")));
    EXPECT_FALSE(fs::exists(out));
  }
  EXPECT_EQ(run_tessera({"checkpoint", "consolidate", first(), out, "--verify", "sizes"}).status, 0);
  EXPECT_EQ(run_tessera({"checkpoint", "reshard", first(), directory_ / "out2", "--nproc", "2", "--verify", "off"}).status, 0);
}

TEST_F(CheckpointCommands, Prune) {
  EXPECT_EQ(run_tessera({"checkpoint", "prune", run()}).status, 2) << "--keep is required";
  fs::create_directory(run() / ".epoch_0_step_9.saving");
  {
    const checkpoint::DirectoryLock running(run());
    EXPECT_THAT(run_tessera({"checkpoint", "prune", run(), "--keep", "1"}).error, HasSubstr("another run writes"));
  }
  const Json json = answer(run_tessera({"checkpoint", "prune", run(), "--keep", "1", "--json"}));
  EXPECT_EQ(json["removed"], Json::array({first().string()}));
  EXPECT_EQ(json["kept"], Json::array({(run() / "epoch_0_step_4").string()}));
  EXPECT_FALSE(fs::exists(first()));
  EXPECT_TRUE(fs::exists(run() / "epoch_0_step_4"));
  EXPECT_FALSE(fs::exists(run() / ".epoch_0_step_9.saving"));
}

TEST(CheckpointCommandLine, PruneLeavesAFolderThatIsNoRunsAsItWas) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "mine", "x");
  const auto result = run_tessera({"checkpoint", "prune", directory.path().string(), "--keep", "1"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(result.output, "0 removed, 0 kept\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(CheckpointCommandLine, MistakesNameTheCommand) {
  EXPECT_THAT(run_tessera({"checkpoint", "list", "x", "--jsn"}).error,
              StartsWith("error: tessera checkpoint list: unknown option --jsn\n  fix:  did you mean --json"));
  EXPECT_THAT(run_tessera({"checkpoint", "diff", "x"}).error, HasSubstr("`tessera checkpoint diff --help` shows the options"));
  EXPECT_EQ(run_tessera({"checkpoint"}).status, 2);
  for (const char* const name : {"list", "inspect", "verify", "consolidate", "reshard", "diff", "prune"})
    EXPECT_THAT(run_tessera({"checkpoint", name, "--help"}).output, HasSubstr(std::string("example:\n  tessera checkpoint ") + name)) << name;
}

}  // namespace
}  // namespace tessera
