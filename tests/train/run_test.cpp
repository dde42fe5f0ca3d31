#include "tessera/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <thread>

#include "tessera/checkpoint/compare.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "train/small_run.h"

namespace tessera::train::test {
namespace {

namespace fs = std::filesystem;
using tessera::test::error_of;
using tessera::test::read_file;
using tessera::test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;

/// What a step computed, without what a clock measured.
std::vector<Json> computed(const fs::path& directory) {
  std::vector<Json> lines = json_lines(directory / "logs/training.jsonl");
  for (Json& line : lines)
    for (const char* const measured : {"mem", "tps", "tps_per_gpu", "mfu"}) line.erase(measured);
  return lines;
}

/// The bytes of every shard of weights, masters and moments of a checkpoint.
std::vector<std::pair<std::string, std::string>> shards(const fs::path& checkpoint) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const char* const folder : {"model", "optim"})
    for (const auto& entry : fs::directory_iterator(checkpoint / folder))
      if (entry.path().extension() == ".safetensors") result.emplace_back(folder + ("/" + entry.path().filename().string()), read_file(entry.path()));
  std::ranges::sort(result);
  return result;
}

std::vector<std::string> names(const fs::path& directory) {
  std::vector<std::string> result;
  for (const auto& entry : fs::directory_iterator(directory)) result.push_back(entry.path().filename().string());
  std::ranges::sort(result);
  return result;
}

/// Packs longer than the model's context: each document still fits into it.
TEST(Train, TrainsOnPacks) {
  for (const char* const strategy : {"thd", "neat"}) {
    const TemporaryDirectory directory;
    const RunSummary summary =
        train_small(directory.path(), {"--packed_sequence.packed_sequence_size=96", std::string("--packed_sequence.packing_strategy=") + strategy,
                                       "--step_scheduler.local_batch_size=1", "--step_scheduler.num_epochs=6"});
    EXPECT_LT(summary.total_steps, 6 * 5) << strategy;  // of 11 without packing
    EXPECT_LT(summary.last_loss, summary.first_loss) << strategy;
  }
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { train_small(directory.path(), {"--packed_sequence.packed_sequence_size=96"}); }),
              HasSubstr("local_batch_size: 2 does not go with packed_sequence"));
}

TEST(Train, TrainsLogsValidatesAndSaves) {
  const TemporaryDirectory directory;
  const RunSummary summary = train_small(directory.path());
  EXPECT_EQ(summary.first_step, 0);
  EXPECT_EQ(summary.last_step, 22);
  EXPECT_EQ(summary.total_steps, 22);
  EXPECT_FALSE(summary.interrupted);
  EXPECT_LT(summary.last_loss, summary.first_loss);
  EXPECT_GT(summary.tokens_per_second, 0.0);
  EXPECT_EQ(summary.checkpoint, directory / "checkpoints/epoch_1_step_22");

  const std::vector<Json> lines = json_lines(directory / "logs/training.jsonl");
  ASSERT_EQ(lines.size(), 22U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("epoch"), i / 11);
  }
  EXPECT_EQ(lines.front().at("loss"), summary.first_loss);
  EXPECT_NEAR(lines[2].at("lr").get<double>(), 3e-4 + (3e-3 - 3e-4) * 2.0 / 3.0, 1e-9);

  // Without val_every_steps: at the end of each epoch.
  const std::vector<Json> validation = json_lines(directory / "logs/validation.jsonl");
  ASSERT_EQ(validation.size(), 2U);
  EXPECT_EQ(validation[0].at("step"), 11);
  EXPECT_EQ(validation[1].at("val_loss"), *summary.validation_loss);
  EXPECT_EQ(validation[1].at("name"), "default");
  EXPECT_EQ(names(directory / "logs/tensorboard").size(), 1U);
  EXPECT_EQ(names(directory / "checkpoints"), (std::vector<std::string>{".lock", "LATEST", "LOWEST_VAL", "epoch_0_step_11", "epoch_1_step_22"}));
}

TEST(Train, ChecksAndSavesWhenTheRecipeSays) {
  const TemporaryDirectory directory;
  train_small(directory.path(), {"--step_scheduler.ckpt_every_steps=4", "--step_scheduler.save_checkpoint_every_epoch=true",
                                 "--step_scheduler.val_every_steps=5", "--step_scheduler.max_steps=13", "--checkpoint.max_recent_checkpoints=2"});
  std::vector<std::int64_t> validated;
  for (const Json& line : json_lines(directory / "logs/validation.jsonl")) validated.push_back(line.at("step"));
  EXPECT_EQ(validated, (std::vector<std::int64_t>{5, 10, 13}));
  // Saved at 4, 8, 11 (end of the epoch), 12 and 13; two are kept, and the one that LOWEST_VAL points at.
  std::vector<std::string> kept = names(directory / "checkpoints");
  EXPECT_THAT(kept, testing::IsSupersetOf({"epoch_1_step_12", "epoch_1_step_13", "LATEST", "LOWEST_VAL"}));
  EXPECT_LE(kept.size(), 6U) << "with the lock";
}

class Resume : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Resume, testing::Values("float32", "bfloat16"), [](const auto& info) { return std::string(info.param); });

// In mid-epoch, with dropout, ragged rows, accumulation, warm-up and decay: not a bit may differ.
TEST_P(Resume, IsBitwiseTheUninterruptedRun) {
  const TemporaryDirectory whole, resumed;
  const std::string dtype = std::string("--model.torch_dtype=") + GetParam();
  train_small(whole.path(), {dtype, "--step_scheduler.ckpt_every_steps=7"});
  fs::create_directories(resumed / "checkpoints");
  fs::copy(whole / "checkpoints/epoch_0_step_7", resumed / "checkpoints/epoch_0_step_7", fs::copy_options::recursive);
  fs::copy(whole / "logs", resumed / "logs", fs::copy_options::recursive);  // a run that got further than its checkpoint

  const RunSummary summary = train_small(resumed.path(), {dtype, "--step_scheduler.ckpt_every_steps=7", "--checkpoint.restore_from=LATEST"});
  EXPECT_EQ(summary.first_step, 7);
  EXPECT_EQ(summary.last_step, 22);
  EXPECT_EQ(computed(resumed.path()), computed(whole.path()));
  EXPECT_EQ(json_lines(resumed / "logs/validation.jsonl"), json_lines(whole / "logs/validation.jsonl"));
  for (const char* const name : {"epoch_1_step_14", "epoch_1_step_21", "epoch_1_step_22"}) {
    const auto expected = shards(whole / "checkpoints" / name);
    EXPECT_GE(expected.size(), 2U);
    EXPECT_TRUE(shards(resumed / "checkpoints" / name) == expected) << name;
    EXPECT_EQ(read_file(resumed / "checkpoints" / name / "loader.json"), read_file(whole / "checkpoints" / name / "loader.json"));
  }
}

/// Sends a signal to this process once a run has finished `steps` steps.
std::thread signal_after(int steps, const fs::path& training_log, int signal) {
  return std::thread([=] {
    const auto lines = [&] {
      std::ifstream file(training_log);
      return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    };
    for (int waited = 0; waited < 60'000 && lines() < steps; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (lines() >= steps) ::kill(::getpid(), signal);
  });
}

TEST(Train, ASignalEndsTheStepSavesAndTheRunGoesOnFromThere) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryDirectory directory, whole;
    const std::vector<std::string> overrides = {"--dataset.num_sentences=100000", "--lr_scheduler=null", "--validation_dataset=null"};
    std::thread sender = signal_after(3, directory / "logs/training.jsonl", signal);
    const RunSummary summary = train_small(directory.path(), overrides);
    sender.join();
    EXPECT_TRUE(summary.interrupted);
    EXPECT_GE(summary.last_step, 3);
    ASSERT_TRUE(summary.checkpoint.has_value());
    EXPECT_EQ(checkpoint::link_target(directory / "checkpoints", "LATEST"), fs::canonical(*summary.checkpoint));

    const std::int64_t last = summary.last_step + 2;
    std::vector<std::string> further = overrides;
    further.push_back("--step_scheduler.max_steps=" + std::to_string(last));
    const RunSummary uninterrupted = train_small(whole.path(), further);
    further.push_back("--checkpoint.restore_from=LATEST");
    const RunSummary resumed = train_small(directory.path(), further);
    EXPECT_EQ(resumed.first_step, summary.last_step);
    EXPECT_EQ(computed(directory.path()), computed(whole.path()));
    EXPECT_TRUE(shards(*resumed.checkpoint) == shards(*uninterrupted.checkpoint));
  }
}

TEST(Train, ConsolidatesNeverAtTheEndOrEachTime) {
  for (const auto& [setting, at_8, at_22] : {std::tuple{"false", false, false}, std::tuple{"final", false, true}, std::tuple{"every", true, true}}) {
    const TemporaryDirectory directory;
    train_small(directory.path(), {"--step_scheduler.ckpt_every_steps=8", std::string("--checkpoint.save_consolidated=") + setting});
    EXPECT_EQ(fs::exists(directory / "checkpoints/epoch_0_step_8/model/consolidated/model.safetensors"), at_8) << setting;
    EXPECT_EQ(fs::exists(directory / "checkpoints/epoch_1_step_22/model/consolidated/model.safetensors"), at_22) << setting;
  }
}

TEST(Train, AConsolidatedCheckpointIsAModelToTrainFrom) {
  const TemporaryDirectory first, second;
  const RunSummary before = train_small(first.path(), {"--checkpoint.save_consolidated=true"});
  const RunSummary after =
      train_small(second.path(),
                  {"--model._target_=from_pretrained", "--model.config=null",
                   "--model.pretrained_model_name_or_path=" + (*before.checkpoint / "model/consolidated").string(), "--step_scheduler.max_steps=2"});
  EXPECT_LT(after.first_loss, before.first_loss - 0.1);
}

TEST(Train, LeavesNothingBehindWithoutCheckpointsAndLogs) {
  const TemporaryDirectory directory;
  const RunSummary summary = train_small(directory.path(), {"--checkpoint.enabled=false", "--logging.directory=", "--step_scheduler.max_steps=2"});
  EXPECT_EQ(summary.last_step, 2);
  EXPECT_FALSE(summary.checkpoint.has_value());
  EXPECT_EQ(names(directory.path()), (std::vector<std::string>{"recipe.yaml"}));
}

/// mp_policy.param_dtype: computes as a bf16 model does, to the bit, and saves the fp32 weights that the optimizer keeps.
TEST(Train, AModelSavedInSinglePrecisionComputesInHalf) {
  const TemporaryDirectory half, mixed;
  train_small(half.path(), {"--model.torch_dtype=bfloat16", "--step_scheduler.max_steps=4"});
  train_small(mixed.path(), {"--distributed.mp_policy.param_dtype=bfloat16", "--step_scheduler.max_steps=4"});
  EXPECT_EQ(computed(half.path()), computed(mixed.path()));
  const auto dtype_of = [](const fs::path& directory) {
    return checkpoint::read_manifest(directory / "checkpoints/LATEST").model.begin()->second.dtype;
  };
  EXPECT_EQ(dtype_of(half.path()), DType::BF16);
  EXPECT_EQ(dtype_of(mixed.path()), DType::F32);
  EXPECT_THAT(read_file(mixed / "checkpoints/LATEST/model/config.json"), HasSubstr(R"("torch_dtype": "float32")"));
  // Its model/ is what the other's optimizer has as masters: both go on alike.
  const std::vector<std::string> go_on{"--step_scheduler.max_steps=6", "--checkpoint.restore_from=LATEST"};
  train_small(half.path(), {"--model.torch_dtype=bfloat16", go_on[0], go_on[1]});
  train_small(mixed.path(), {"--distributed.mp_policy.param_dtype=bfloat16", go_on[0], go_on[1]});
  EXPECT_EQ(computed(half.path()), computed(mixed.path()));
}

TEST(Train, RecomputationChangesNoBit) {
  const TemporaryDirectory plain, full, selective;
  const auto run = [](const TemporaryDirectory& directory, const std::string& mode) {
    return shards(*train_small(directory.path(), {"--step_scheduler.max_steps=5", "--distributed.activation_checkpointing=" + mode}).checkpoint);
  };
  const auto expected = run(plain, "false");
  EXPECT_TRUE(run(full, "true") == expected);
  EXPECT_TRUE(run(selective, "selective") == expected);
}

TEST(Train, RefusesABatchThatDoesNotDivide) {
  const TemporaryDirectory directory;
  const std::string error = error_of([&] { train_small(directory.path(), {"--step_scheduler.local_batch_size=3"}); });
  EXPECT_THAT(error, AllOf(HasSubstr("global_batch_size"), HasSubstr("local_batch_size"), HasSubstr("3"))) << error;
  EXPECT_FALSE(fs::exists(directory / "checkpoints"));
}

TEST(Train, SavesInTheBackgroundTheSameAsInTheForeground) {
  const TemporaryDirectory waits, goes_on;
  const std::vector<std::string> options{"--step_scheduler.max_steps=9", "--step_scheduler.ckpt_every_steps=2",
                                         "--checkpoint.save_consolidated=true"};
  std::vector<std::string> in_background = options;
  in_background.emplace_back("--checkpoint.is_async=true");
  train_small(waits.path(), options);
  const RunSummary summary = train_small(goes_on.path(), in_background);
  EXPECT_EQ(summary.checkpoint, goes_on / "checkpoints/epoch_0_step_9");
  for (const int step : {2, 4, 6, 8, 9}) {
    const fs::path name = fmt::format("checkpoints/epoch_0_step_{}", step);
    EXPECT_TRUE(checkpoint::compare(waits.path() / name, goes_on.path() / name).same()) << step;
    EXPECT_TRUE(verify_files(goes_on.path() / name, checkpoint::read_manifest(goes_on.path() / name), checkpoint::Verify::Full).empty());
  }
  EXPECT_EQ(computed(waits.path()), computed(goes_on.path()));
}

TEST(Train, SaysWhenADirectoryCannotBeWritten) {
  // A file where a directory should be: not even root can write there.
  const TemporaryDirectory directory;
  tessera::test::write_file(directory / "file", "");
  const std::string below = (directory / "file/below").string();
  EXPECT_THAT(error_of([&] { train_small(directory.path(), {"--checkpoint.checkpoint_dir=" + below}); }), HasSubstr(below));
  EXPECT_THAT(error_of([&] { train_small(directory.path(), {"--logging.directory=" + below}); }), HasSubstr(below));
}

/// While alive, no file of this process grows past `bytes`: what a full disk does to a writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TEST(Train, ASaveThatDoesNotFitLeavesTheEarlierOneWhole) {
  for (const std::string is_async : {"false", "true"}) {
    const TemporaryDirectory directory;
    train_small(directory.path(), {"--step_scheduler.max_steps=3"});
    const auto expected = shards(directory / "checkpoints/epoch_0_step_3");
    std::string error;
    {
      const FileSizeLimit limit(200'000);
      error = error_of([&] { train_small(directory.path(), {"--step_scheduler.max_steps=5", "--checkpoint.is_async=" + is_async}); });
    }
    EXPECT_THAT(error, AllOf(HasSubstr(".safetensors"), HasSubstr("File too large"), HasSubstr("earlier ones are untouched"))) << error;
    EXPECT_EQ(checkpoint::link_target(directory / "checkpoints", "LATEST"), fs::canonical(directory / "checkpoints/epoch_0_step_3"));
    EXPECT_TRUE(shards(directory / "checkpoints/epoch_0_step_3") == expected);
    const RunSummary summary = train_small(directory.path(), {"--step_scheduler.max_steps=5"});
    EXPECT_EQ(summary.last_step, 5);
  }
}

/// Questions longer than what fits: the answers, which alone are learnt, are cut off.
std::string without_labels(const std::string& section, const fs::path& directory) {
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += R"({"question": "What is the name of the capital of the country that we spoke of?", "answer": "Oda"})"
             "\n";
  tessera::test::write_file(directory / "data.jsonl", lines);
  return fmt::format(
      "--{}={{_target_: instruction, path_or_dataset_id: {}, column_mapping: {{question: question, "
      "answer: answer}}, seq_length: 6, truncation: true, tokenizer: {{pretrained_model_name_or_path: {}}}}}",
      section, (directory / "data.jsonl").string(), tessera::test::test_data("data/tokenizer").string());
}

TEST(Train, WarnsOnceOfStepsWithoutLabels) {
  const TemporaryDirectory directory;
  testing::internal::CaptureStderr();
  const RunSummary summary = train_small(directory.path(), {without_labels("dataset", directory.path()), "--validation_dataset=null",
                                                            "--model.config.vocab_size=1000", "--checkpoint.enabled=false"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(summary.last_step, 4);
  EXPECT_THAT(said, AllOf(HasSubstr("command line: dataset: no label counts in the 4 samples of step 1"), HasSubstr("data.jsonl"),
                          HasSubstr("4 of 4 steps had no label")));
  EXPECT_EQ(said.find("no label counts in"), said.rfind("no label counts in"));
}

/// A loss of 0 would be the lowest for ever.
TEST(Train, AValidationSetWithoutLabelsHasNoLoss) {
  const TemporaryDirectory directory;
  testing::internal::CaptureStderr();
  train_small(directory.path(), {without_labels("validation_dataset", directory.path()), "--model.config.vocab_size=1000", "--dataset.vocab_size=80",
                                 "--step_scheduler.max_steps=1"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("validation set default: no label counts"));
  EXPECT_TRUE(fs::exists(directory / "checkpoints/LATEST"));
  EXPECT_FALSE(fs::is_symlink(directory / "checkpoints/LOWEST_VAL"));
}

TEST(Train, StopsAtALossThatIsNoNumber) {
  const TemporaryDirectory directory;
  const std::string error =
      error_of([&] { train_small(directory.path(), {"--optimizer.lr=1e37", "--lr_scheduler=null", "--clip_grad_norm.max_norm=null"}); });
  EXPECT_THAT(error, AllOf(HasSubstr("step "), HasSubstr("loss nan"))) << error;
  EXPECT_FALSE(fs::exists(directory / "checkpoints/LATEST"));
}

}  // namespace
}  // namespace tessera::train::test
