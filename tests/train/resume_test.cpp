// What a run that goes on takes from the recipe and what from the checkpoint, and which checkpoint is the best of a run.
#include <gmock/gmock.h>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/manifest.h"
#include "train/small_run.h"

namespace tessera::train::test {
namespace {

namespace fs = std::filesystem;
using tessera::test::error_of;
using tessera::test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Strings = std::vector<std::string>;

std::vector<double> learning_rates(const fs::path& directory) {
  std::vector<double> rates;
  for (const Json& line : json_lines(directory / "logs/training.jsonl")) rates.push_back(line.at("lr"));
  return rates;
}

/// Six steps, the last three of which another run of another recipe takes.
class ResumedSchedule : public testing::Test {
 protected:
  static constexpr std::size_t kFirst = 3;
  const Strings six = {"--step_scheduler.max_steps=6", "--lr_scheduler.wd_incr_steps=22", "--validation_dataset=null"};
  const Strings changed = {"--optimizer.lr=5.0e-4", "--lr_scheduler.lr_decay_steps=10"};

  ResumedSchedule() { train_small(begun_.path(), six, {"--step_scheduler.max_steps=3"}); }

  /// The learning rates of a run that goes on from the first three steps.
  std::vector<double> resumed(const Strings& overrides) const {
    const TemporaryDirectory directory;
    fs::copy(begun_.path(), directory.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    train_small(directory.path(), six, overrides);
    return learning_rates(directory.path());
  }
  /// Those of a run of six steps.
  std::vector<double> uninterrupted(const Strings& overrides = {}) const {
    const TemporaryDirectory directory;
    train_small(directory.path(), six, overrides);
    return learning_rates(directory.path());
  }
  /// Three steps of the first, then those of the second.
  static std::vector<double> joined(std::vector<double> first, const std::vector<double>& second) {
    std::copy(second.begin() + kFirst, second.end(), first.begin() + kFirst);
    return first;
  }
  Strings with(const std::string& option) const {
    Strings all = changed;
    all.push_back("--lr_scheduler." + option);
    return all;
  }

 private:
  TemporaryDirectory begun_;
};

TEST_F(ResumedSchedule, IsTheCheckpointsUnlessTheRecipeSaysOtherwise) {
  const std::vector<double> saved = uninterrupted(), of_the_recipe = uninterrupted(changed);
  EXPECT_NE(saved, of_the_recipe);
  testing::internal::CaptureStderr();
  EXPECT_EQ(resumed(changed), saved);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("the checkpoint's schedule goes on"), HasSubstr("lr_scheduler.max_lr: the recipe says 0.0005, the checkpoint 0.003")));
  EXPECT_EQ(resumed(with("override_opt_param_scheduler=true")), joined(saved, of_the_recipe));
  EXPECT_EQ(resumed({"--optimizer.lr=5.0e-4", "--lr_scheduler=null"}), joined(saved, std::vector<double>(6, 5.0e-4))) << "there is nothing to keep";
}

TEST_F(ResumedSchedule, MayHaveToAgree) {
  const Strings must_agree = with("use_checkpoint_opt_param_scheduler=false");
  EXPECT_THAT(error_of([&] { resumed(must_agree); }),
              AllOf(HasSubstr("lr_scheduler.max_lr: the recipe says 0.0005, the checkpoint 0.003"),
                    HasSubstr("lr_scheduler.lr_decay_steps: the recipe says 10, the checkpoint 22"), Not(HasSubstr("warmup_steps"))));
  EXPECT_EQ(resumed({"--lr_scheduler.use_checkpoint_opt_param_scheduler=false"}), uninterrupted());
}

/// A directory with a run of seven steps; an epoch has eleven.
class InMidEpoch : public testing::Test {
 protected:
  static constexpr int kSaved = 7;
  const Strings eight = {"--step_scheduler.max_steps=8", "--lr_scheduler=null", "--validation_dataset=null"};

  explicit InMidEpoch(int saved = kSaved, const Strings& overrides = {}) {
    Strings all = {fmt::format("--step_scheduler.max_steps={}", saved)};
    all.insert(all.end(), overrides.begin(), overrides.end());
    train_small(directory_.path(), eight, all);
  }
  const fs::path& path() const { return directory_.path(); }
  std::string error_with(const Strings& overrides) const {
    return error_of([&] { train_small(path(), eight, overrides); });
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(InMidEpoch, TheOrderOfTheDataStays) {
  const auto both = [](const std::string& key, const std::string& saved, const std::string& now) {
    return AllOf(HasSubstr("loader.json: " + key + ": " + saved + " in the checkpoint, " + now + " in the recipe"), HasSubstr("set it back"));
  };
  EXPECT_THAT(error_with({"--seed=6"}), both("seed", "5", "6"));
  EXPECT_THAT(error_with({"--dataloader.shuffle=false"}), both("dataloader.shuffle", "true", "false"));
  EXPECT_THAT(error_with({"--dataloader.group_by_length=true"}), both("dataloader.group_by_length", "false", "true"));
  for (const char* const other : {"--dataset.seed=77", "--dataset.vocab_size=40"})
    EXPECT_THAT(error_with({other}), HasSubstr("dataset: the same number of samples, but others\n    checkpoint: 44 samples (44 random sentences"));
  EXPECT_THAT(error_with({"--dataset.num_sentences=45"}), HasSubstr("dataset: another number of samples"));
  train_small(path(), eight, {"--step_scheduler.global_batch_size=8"});  // of the samples that are left
}

/// Checkpoints of the version before have a seed in rng.json alone, and nothing else of this.
TEST_F(InMidEpoch, AnEarlierVersionsCheckpointIsComparedByItsSeed) {
  const fs::path checkpoint = path() / "checkpoints/epoch_0_step_7";
  checkpoint::Manifest manifest = checkpoint::read_manifest(checkpoint);
  tessera::test::write_file(checkpoint / "loader.json", R"({"epoch": 0, "consumed": 28, "num_samples": 44})");
  manifest.files.at("loader.json") = {fs::file_size(checkpoint / "loader.json"), checkpoint::hash_of_file(checkpoint / "loader.json")};
  manifest.best_validation.reset();
  manifest.signature.numerics = Json::object();
  tessera::test::write_file(checkpoint / "manifest.json", checkpoint::to_text(manifest));
  EXPECT_THAT(error_with({"--seed=6"}), HasSubstr("seed: 5 in the checkpoint, 6 in the recipe"));
  train_small(path(), eight, {"--model.config.layer_norm_epsilon=1.0e-3"});
}

class AtTheEndOfAnEpoch : public InMidEpoch {
 protected:
  AtTheEndOfAnEpoch() : InMidEpoch(11) {}
};

TEST_F(AtTheEndOfAnEpoch, TheNextMayHaveOtherData) {
  testing::internal::CaptureStderr();
  train_small(path(), eight, {"--step_scheduler.max_steps=12", "--seed=6", "--dataset.seed=77"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("from epoch 1 on"), HasSubstr("seed: 5 in the checkpoint, 6 in the recipe"),
                                                            HasSubstr("dataset: the same number of samples, but others")));
}

TEST_F(InMidEpoch, TheModelStaysTheFunctionThatItWas) {
  EXPECT_THAT(error_with({"--model.config.layer_norm_epsilon=1.0e-3", "--model.config.activation_function=relu"}),
              AllOf(HasSubstr("norm_eps: 1e-05 in the checkpoint, 0.001 in the recipe"), HasSubstr("activation: \"gelu_tanh\" in the checkpoint"),
                    Not(HasSubstr("norm_placement"))));
  const TemporaryDirectory other;
  testing::internal::CaptureStderr();
  train_small(other.path(), eight,
              {"--model.config.layer_norm_epsilon=1.0e-3", "--checkpoint.restore_optimizer=false",
               "--checkpoint.restore_from=" + (path() / "checkpoints/LATEST").string(), "--step_scheduler.max_steps=1"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the model now computes otherwise: norm_eps: 1e-05 in the checkpoint, 0.001"));
}

/// The directory of the second run has nothing at first, then what it saved.
TEST_F(InMidEpoch, ARunThatBeganElsewhereGoesOnByTheSameCommand) {
  for (const char* const optimizer : {"true", "false"}) {
    const TemporaryDirectory second;
    const std::string from = "--checkpoint.restore_from=" + (path() / "checkpoints/epoch_0_step_7").string();
    const Strings began = {from, std::string("--checkpoint.restore_optimizer=") + optimizer, "--step_scheduler.max_steps=9"};
    const Strings goes_on = {began[0], began[1], "--step_scheduler.max_steps=10"};
    train_small(second.path(), eight, began);
    const RunSummary summary = train_small(second.path(), eight, goes_on);
    EXPECT_EQ(summary.first_step, 9) << optimizer;
    EXPECT_EQ(summary.last_step, 10) << optimizer;
  }
}

/// Of a model that learns the smaller half of its vocabulary: what holds the rest becomes less likely with every step.
TEST(LowestValidation, IsThatOfTheSetThatTheRecipeNames) {
  for (const std::string key : {"default", "foreign"}) {
    const TemporaryDirectory directory;
    train_small(directory.path(), {"--step_scheduler.max_steps=9", "--step_scheduler.val_every_steps=3", "--step_scheduler.ckpt_every_steps=3",
                                   "--dataset.vocab_size=20", "--validation_dataset.vocab_size=20", "--checkpoint.best_metric_key=" + key,
                                   "--validation_dataset_foreign={_target_: mock_unpacked, num_sentences: 6, vocab_size: 80, max_sentence_len: 30}"});
    std::map<std::string, std::pair<double, std::int64_t>> lowest;
    for (const Json& line : json_lines(directory / "logs/validation.jsonl")) {
      const std::pair<double, std::int64_t> now{line.at("val_loss"), line.at("step")};
      const auto known = lowest.try_emplace(line.at("name"), now).first;
      known->second = std::min(known->second, now);
    }
    ASSERT_EQ(lowest.size(), 2U);
    EXPECT_NE(lowest.at("default").second, lowest.at("foreign").second) << "else this test shows nothing";
    EXPECT_EQ(checkpoint::link_target(directory / "checkpoints", "LOWEST_VAL")->filename(), fmt::format("epoch_0_step_{}", lowest.at(key).second));
  }
}

/// Every third step is validated, every second saved.
TEST(LowestValidation, IsOfWeightsThatWereMeasured) {
  const TemporaryDirectory directory;
  train_small(directory.path(), {"--step_scheduler.max_steps=8", "--step_scheduler.val_every_steps=3", "--step_scheduler.ckpt_every_steps=2"});
  const auto metric = [&](int step) {
    return checkpoint::read_manifest(directory / fmt::format("checkpoints/epoch_0_step_{}", step)).validation_metric;
  };
  EXPECT_EQ(metric(2), std::nullopt);
  EXPECT_EQ(metric(4), std::nullopt) << "measured at step 3, before its last step";
  EXPECT_EQ(metric(6), json_lines(directory / "logs/validation.jsonl")[1].at("val_loss").get<double>());
  EXPECT_TRUE(metric(8).has_value()) << "the last step is validated";
}

/// Step 2 is the best of the first run; the second, which goes on from it elsewhere, gets worse.
TEST(LowestValidation, IsThatOfTheRunAlsoWhereItGoesOnElsewhere) {
  const TemporaryDirectory first, second;
  const Strings options = {"--step_scheduler.val_every_steps=2", "--step_scheduler.ckpt_every_steps=2", "--lr_scheduler=null"};
  const Strings begins = {"--step_scheduler.max_steps=2"};
  const Strings goes_on = {"--step_scheduler.max_steps=6", "--optimizer.lr=0.3",
                           "--checkpoint.restore_from=" + (first / "checkpoints/epoch_0_step_2").string()};
  train_small(first.path(), options, begins);
  train_small(second.path(), options, goes_on);
  const auto losses = json_lines(second / "logs/validation.jsonl");
  const auto best = checkpoint::read_manifest(second / "checkpoints/epoch_0_step_6").best_validation;
  ASSERT_GT(losses.back().at("val_loss"), best->metric) << "else this test shows nothing";
  EXPECT_EQ(best->checkpoint, fs::canonical(first / "checkpoints/epoch_0_step_2"));
  EXPECT_EQ(checkpoint::link_target(second / "checkpoints", "LOWEST_VAL"), std::nullopt);
  fs::remove_all(first / "checkpoints");  // then it is the lowest of those that are there
  train_small(second.path(), options, {goes_on[1], goes_on[2], "--step_scheduler.max_steps=8"});
  EXPECT_TRUE(checkpoint::link_target(second / "checkpoints", "LOWEST_VAL").has_value());
}

}  // namespace
}  // namespace tessera::train::test
