// What a run that goes on takes from the recipe and what from the checkpoint, and which checkpoint is the best of a run.
#include <gmock/gmock.h>

#include "tessera/checkpoint/directory.h"
#include "tessera/train/run.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
namespace {

namespace fs = std::filesystem;
using tessera::test::error_of;
using tessera::test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Strings = std::vector<std::string>;

void train_small(const fs::path& directory, Strings overrides, const Strings& more = {}) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  train(load_small_recipe(directory, overrides), no_variables, tessera::test::one_process_backend());
}

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
  EXPECT_EQ(resumed(changed), saved);
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

}  // namespace
}  // namespace tessera::train::test
