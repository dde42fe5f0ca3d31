// `tessera check` on a small recipe: nothing is allocated, everything is said.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Check : public testing::Test {
 protected:
  void SetUp() override {
    test::write_file(recipe_, R"(step_scheduler: {global_batch_size: 24, local_batch_size: 2}
model:
  _target_: from_config
  config: {model_type: gpt2, n_embd: 64, n_layer: 2, n_head: 4, n_positions: 64, vocab_size: 80}
  torch_dtype: bfloat16
dataset: {_target_: mock_unpacked, num_sentences: 44, vocab_size: 80, max_sentence_len: 30}
distributed:
  strategy: fsdp2
)");
  }
  test::CommandResult check(std::vector<std::string> more) const {
    more.insert(more.begin(), {"check", recipe_.string()});
    return run_tessera(more);
  }
  Json memory(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const auto result = check(more);
    EXPECT_EQ(result.status, 0) << result.output;
    return parse_json(result.output, "output")["memory"];
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path recipe_ = directory_ / "recipe.yaml";
};

TEST_F(Check, OneRankHasNoMesh) {
  const auto result = check({});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("the recipe can be trained; its data were not read"), Not(HasSubstr("mesh:")), Not(HasSubstr("per rank"))));
}

TEST_F(Check, TheMeshIsPrinted) {
  const auto result = check({"--nproc-per-node", "6", "--distributed.dp_replicate_size", "2"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("mesh: 6 ranks\n"), HasSubstr("  dp_replicate    2   groups (0 3) (1 4) (2 5)\n"),
                                   HasSubstr("  dp_shard        3   groups (0 1 2) (3 4 5)\n"),
                                   HasSubstr("  dp              6   groups (0 1 2 3 4 5)\n"), HasSubstr("  rank 4: dp_replicate 1, dp_shard 1\n"),
                                   HasSubstr("memory        per rank: weights"), HasSubstr("the recipe can be trained by 6 ranks; ")));
}

TEST_F(Check, TheMeshForPrograms) {
  const auto result = check({"--nproc-per-node=6", "--distributed.dp_replicate_size=2", "--json"});
  const Json mesh = parse_json(result.output, "output")["mesh"];
  EXPECT_EQ(mesh["world_size"], 6);
  EXPECT_EQ(mesh["dp_shard"], 3);
  EXPECT_EQ(mesh["groups"]["dp_replicate"], Json::parse("[[0, 3], [1, 4], [2, 5]]"));
  EXPECT_EQ(mesh["ranks"].size(), 6U);
  EXPECT_EQ(mesh["ranks"][4]["dp_replicate"], 1);
}

TEST_F(Check, MemoryIsThatOfOneRank) {
  const Json alone = memory({});
  const auto bytes = [](const Json& memory, const char* key) { return memory[key].get<double>(); };
  const std::string no_deferral = "--distributed.defer_fsdp_grad_sync=false";
  const Json zero_3 = memory({"--nproc-per-node", "4", no_deferral});
  EXPECT_NEAR(bytes(zero_3, "weights"), bytes(alone, "weights") / 4, 16);
  EXPECT_NEAR(bytes(zero_3, "gradients"), bytes(alone, "gradients") / 4, 16);
  EXPECT_NEAR(bytes(zero_3, "optimizer"), bytes(alone, "optimizer") / 4, 16);
  EXPECT_GT(bytes(zero_3, "gathered"), 0);
  EXPECT_EQ(bytes(alone, "gathered"), 0);
  // Three microbatches a rank: deferred gradients add up whole.
  EXPECT_EQ(bytes(memory({"--nproc-per-node", "4"}), "gradients"), bytes(alone, "gradients"));
  Json ddp = memory({"--nproc-per-node", "4", "--distributed.strategy=ddp"});
  EXPECT_GT(bytes(ddp, "messages"), 0);
  EXPECT_NEAR(bytes(ddp, "total") - bytes(ddp, "messages"), bytes(alone, "total"), 16);
}

TEST_F(Check, ShowsHowModulesAreSplit) {
  const auto result = check({"--nproc-per-node", "2", "--distributed.tp_size=2", "--plans"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("tensor plan over 2 ranks"), HasSubstr("attn.c_attn"), HasSubstr("colwise: 2 of 4 heads")));
  const auto wrong = check({"--nproc-per-node", "2", "--distributed.tp_size=2", "--distributed.tp_plan={lm_hat: colwise}"});
  EXPECT_THAT(wrong.error, HasSubstr("distributed.tp_plan: \"lm_hat\" matches no module"));
}

TEST_F(Check, EveryMistakeIsReportedAtOnce) {
  const auto result = check({"--nproc-per-node", "5", "--distributed.dp_size=4", "--distributed.dp_replicate_size=2", "--distributed.tp_size=3",
                             "--distributed.ep_size=7"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, AllOf(HasSubstr("distributed.ep_size: 7 needs a model with experts"), HasSubstr("does not divide the number of ranks, 5"),
                                  HasSubstr("distributed.tp_size: 3 does not divide num_attention_heads (4)")));
  const auto shards = check({"--nproc-per-node", "5", "--distributed.dp_size=4", "--distributed.dp_replicate_size=2"});
  EXPECT_THAT(shards.error, AllOf(HasSubstr("dp_size: 4 is not what 5 ranks leave, 5"), HasSubstr("2 does not divide dp_size (5)"),
                                  HasSubstr("global_batch_size: 24 is not a multiple of local_batch_size · data-parallel ranks (2 · 5)")));
}

/// A model that does not divide is reported, not laid out.
TEST_F(Check, ExpertsThatDoNotDivide) {
  const std::vector<std::string> arguments{"--nproc-per-node=3", "--step_scheduler.global_batch_size=6", "--distributed.ep_size=3", "--plans",
                                           "--model.config={model_type: qwen3_moe, vocab_size: 80, hidden_size: 32, intermediate_size: 48, "
                                           "moe_intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 4, "
                                           "head_dim: 4, num_experts: 8, num_experts_per_tok: 2}"};
  const auto result = check(arguments);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("distributed.ep_size: 3 does not divide the number of experts (8)"));
  std::vector<std::string> for_programs = arguments;
  for_programs.back() = "--json";
  for_programs.push_back(arguments.back());
  EXPECT_THAT(check(for_programs).output, HasSubstr("does not divide the number of experts"));
}

TEST_F(Check, MistakesOfReadingComeWithThoseAboutRanks) {
  const auto result = check({"--nproc-per-node", "5", "--distributed.dp_siez=5"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, AllOf(HasSubstr("unknown key"), HasSubstr("(2 · 5)")));
}

/// A mistake of reading hides nothing about the model, the data or the disk, whose sections could be read.
TEST_F(Check, MistakesOfReadingComeWithThoseAboutModelAndDisk) {
  const std::vector<std::string> overrides = {"--optimizerr.lr=1", "--dataset={_target_: text, paths: nofile.txt}", "--model.config.n_head=5"};
  const auto everything = AllOf(HasSubstr("optimizerr: unknown key"), HasSubstr("dataset.paths: nofile.txt is not on disk"),
                                HasSubstr("command line: n_embd (64) is not a multiple of n_head (5)"));
  const auto checked = check(overrides);
  EXPECT_EQ(checked.status, 2);
  EXPECT_THAT(checked.error, everything);
  EXPECT_EQ(checked.output, "") << "half a recipe is not shown";
  std::vector<std::string> train = {"train", recipe_.string()};
  train.insert(train.end(), overrides.begin(), overrides.end());
  EXPECT_THAT(run_tessera(train).error, everything);
  std::vector<std::string> for_programs = overrides;
  for_programs.emplace_back("--json");
  const Json json = parse_json(check(for_programs).output, "output");
  EXPECT_EQ(json["problems"].size(), 3U);
  EXPECT_FALSE(json.contains("memory"));
}

/// What was not read is not judged.
TEST_F(Check, AHalfReadSectionIsNotExamined) {
  const auto result = check({"--model.config=5x", "--model.torch_dtype=float33", "--checkpoint.checkpoint_dir=$UNSET_FOR_THIS_TEST"});
  EXPECT_THAT(result.error,
              AllOf(HasSubstr("float33"), HasSubstr("UNSET_FOR_THIS_TEST is not set"), Not(HasSubstr("5x")), Not(HasSubstr("cannot be written"))));
}

TEST_F(Check, ValuesOfVariablesAreNotInMistakes) {
  ASSERT_EQ(::setenv("TESSERA_TEST_PLACE", "/nowhere/topsecret", 1), 0);
  const auto result = check({"--model={_target_: from_pretrained, pretrained_model_name_or_path: \"${TESSERA_TEST_PLACE}/m\"}",
                             "--dataset={_target_: text, paths: [\"${TESSERA_TEST_PLACE}/d.txt\"]}",
                             "--optimizer={_target_: \"${TESSERA_TEST_PLACE}\"}", "--checkpoint.restore_from=${TESSERA_TEST_PLACE}/c"});
  ::unsetenv("TESSERA_TEST_PLACE");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error,
              AllOf(HasSubstr("model.pretrained_model_name_or_path: ${TESSERA_TEST_PLACE}/m is not on disk"),
                    HasSubstr("dataset.paths: ${TESSERA_TEST_PLACE}/d.txt is not on disk"), HasSubstr("unknown optimizer \"${TESSERA_TEST_PLACE}\""),
                    HasSubstr("checkpoint.restore_from: "), HasSubstr("${TESSERA_TEST_PLACE}/c"), Not(HasSubstr("topsecret"))));
}

/// What training would refuse after it has read data and model.
TEST_F(Check, SaysWhatTrainingWouldRefuse) {
  const auto error = [&](const std::string& override) {
    const auto result = check({override});
    EXPECT_EQ(result.status, 2) << override;
    return result.error;
  };
  EXPECT_THAT(error("--freeze_config.patterns=[\"(\"]"), HasSubstr("command line: freeze_config.patterns.0: \"(\" is not a regular expression"));
  EXPECT_THAT(error("--optimizer.param_group_overrides=[{pattern: \"(\"}]"), HasSubstr("param_group_overrides.0.pattern: \"(\" is not a regular"));
  EXPECT_THAT(error("--dataloader.batch_size=5"),
              HasSubstr("dataloader.batch_size: 5 · data-parallel ranks (1) does not divide global_batch_size (24)"));
  EXPECT_THAT(error("--dataset.vocab_size=900"), HasSubstr("command line: dataset.vocab_size: 900 does not fit the model's vocabulary of 80"));
  EXPECT_THAT(error("--validation_dataset={_target_: mock, vocab_size: 900}"), HasSubstr("validation_dataset.vocab_size: 900"));
  EXPECT_THAT(error("--dataset.max_sentence_len=64"),
              HasSubstr("command line: dataset.max_sentence_len: 64 makes samples of 65 positions, the model has 64"));
  EXPECT_THAT(error("--freeze_config.freeze_language_model=true"), HasSubstr("freeze_config leaves no parameter to train"));
  EXPECT_THAT(error("--lr_scheduler={min_lr: 0.1}"), HasSubstr("min_lr (0.1) is above max_lr (0.001)"));
  // 44 samples, 24 to a step, ten epochs: 20 steps.
  EXPECT_THAT(error("--lr_scheduler={lr_decay_style: WSD, wsd_decay_steps: 21, lr_wsd_decay_style: linear}"),
              HasSubstr("wsd_decay_steps (21) is not between 1 and lr_decay_steps (20)"));
  EXPECT_EQ(check({"--lr_scheduler={lr_decay_style: WSD, wsd_decay_steps: 20, lr_wsd_decay_style: linear}"}).status, 0);
  EXPECT_THAT(error("--freeze_config.patterns=[wte, q_proj]"),
              AllOf(HasSubstr("command line: freeze_config.patterns.1: no parameter's name matches \"q_proj\""), HasSubstr("transformer.wte.weight"),
                    Not(HasSubstr("patterns.0"))));
  EXPECT_THAT(error("--optimizer.param_group_overrides=[{pattern: q_proj}]"), HasSubstr("no parameter's name matches \"q_proj\""));
  EXPECT_EQ(check({"--optimizer.param_group_overrides=[{pattern: ln_1}]", "--freeze_config.patterns=wte"}).status, 0);
}

TEST_F(Check, ALevelLeavesOutWhatTrainingSays) {
  const auto train = [&](const std::string& level) {
    return run_tessera({"train", recipe_.string(), "--step_scheduler.max_steps=1", "--checkpoint.enabled=false", "--nvtx=true",
                        "--model.torch_dtype=float32", "--logging.level=" + level});
  };
  EXPECT_THAT(train("info").error, AllOf(HasSubstr("note: nvtx"), HasSubstr("step 1 |")));
  EXPECT_EQ(train("warning").error, "");
}

/// A recipe that begins from the weights of a directory.
class CheckPretrained : public Check {
 protected:
  void SetUp() override {
    std::filesystem::copy(test::test_data("goldens/gpt2"), model_);
    test::write_file(recipe_,
                     "step_scheduler: {global_batch_size: 24, local_batch_size: 2}\n"
                     "model:\n  _target_: from_pretrained\n  pretrained_model_name_or_path: " +
                         model_.string() +
                         "\ndataset: {_target_: mock_unpacked, num_sentences: 44, vocab_size: 80, max_sentence_len: 30}\n"
                         "checkpoint:\n  checkpoint_dir: " +
                         (directory_ / "checkpoints").string() + "\n");
  }
  /// Everything that is wrong, said by a program that exits with 2 and creates nothing.
  std::string mistakes(std::vector<std::string> more = {}) {
    const auto result = check(std::move(more));
    EXPECT_EQ(result.status, 2);
    EXPECT_FALSE(std::filesystem::exists(directory_ / "checkpoints"));
    return result.error;
  }
  std::filesystem::path model_ = directory_ / "model";
};

TEST_F(CheckPretrained, WeightsAreComparedWithTheConfiguration) {
  EXPECT_EQ(check({}).status, 0) << check({}).error;
  EXPECT_THAT(mistakes({"--model.config.n_layer=5"}), AllOf(HasSubstr("missing"), HasSubstr("transformer.h.4.mlp.c_fc.weight")));
  EXPECT_THAT(mistakes({"--model.config.n_layer=3"}), AllOf(HasSubstr("not part of the model"), HasSubstr("transformer.h.3.mlp.c_fc.weight")));
}

TEST_F(CheckPretrained, FieldsOfTheModelAreNamedWithTheirLine) {
  Json config = read_json_file(model_ / "config.json");
  config["n_head"] = 0;
  const std::string text = config.dump(1);
  test::write_file(model_ / "config.json", text);
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\"n_head\"")), '\n');
  const std::string path = (model_ / "config.json").string();
  const std::string fix = "  fix:  correct it, or take its value from the model's published config.json\n";
  EXPECT_EQ(mistakes(), "error: " + path + ":" + std::to_string(line) + ": n_head is 0, not a positive integer\n" + fix);
  EXPECT_EQ(mistakes({"--model.config.n_head=-1"}), "error: command line: n_head is -1, not a positive integer\n" + fix);
}

TEST_F(CheckPretrained, MissingAndTruncatedWeightsAreFound) {
  const auto weights = model_ / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 100);
  EXPECT_THAT(mistakes(), HasSubstr("model.safetensors: "));
  std::filesystem::remove(weights);
  EXPECT_THAT(mistakes({"--step_scheduler.local_batch_size=5"}), AllOf(HasSubstr("safetensors"), HasSubstr("(5 · 1)")));
}

TEST_F(CheckPretrained, AMissingDataSetHidesNoMistakeOfTheModel) {
  const std::string said =
      mistakes({"--model.config.n_layer=3",
                "--dataset={_target_: instruction, path_or_dataset_id: /nowhere/x.jsonl, column_mapping: {question: q, answer: a}}"});
  EXPECT_THAT(said, AllOf(HasSubstr("/nowhere/x.jsonl is not on disk"), HasSubstr("h.3.")));
}

TEST_F(CheckPretrained, TheCheckpointToBeginFromIsLookedFor) {
  EXPECT_THAT(mistakes({"--checkpoint.restore_from=epoch_7_step_7"}),
              AllOf(HasSubstr("checkpoint.restore_from: \"epoch_7_step_7\" is neither a checkpoint in"), HasSubstr("leave restore_from out")));
  const std::string said = mistakes({"--checkpoint.restore_from=LATEST", "--step_scheduler.local_batch_size=5"});
  EXPECT_THAT(said, AllOf(HasSubstr("checkpoint.restore_from: LATEST: "), HasSubstr("holds no complete checkpoint"), HasSubstr("(5 · 1)")));
  EXPECT_THAT(mistakes({"--checkpoint.restore_from=" + model_.string()}), HasSubstr("this is a model directory, not a checkpoint of a run"));
  EXPECT_EQ(check({"--checkpoint.restore_from=" + model_.string(), "--checkpoint.restore_optimizer=false"}).status, 0);
  EXPECT_EQ(check({"--checkpoint.restore_from=LATEST", "--checkpoint.enabled=false"}).status, 0);
}

TEST_F(CheckPretrained, WhatARunWritesCanBeWritten) {
  const std::string below = recipe_.string() + "/below";
  EXPECT_THAT(mistakes({"--checkpoint.checkpoint_dir=" + below, "--logging.directory=" + below}),
              AllOf(HasSubstr("checkpoint.checkpoint_dir: " + below + " cannot be written: " + recipe_.string() + " is not a directory"),
                    HasSubstr("logging.directory: " + below + " cannot be written")));
}

}  // namespace
}  // namespace tessera
