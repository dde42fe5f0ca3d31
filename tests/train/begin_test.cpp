// Where a run begins: at the start, at a checkpoint, or at weights alone.
#include <gmock/gmock.h>

#include "tessera/checkpoint/compare.h"
#include "train/small_run.h"

namespace tessera::train::test {
namespace {

using tessera::test::error_of;
using tessera::test::read_file;
using tessera::test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;

TEST(Train, StartsFromTheWeightsAloneWhenAsked) {
  const TemporaryDirectory first, second;
  const RunSummary before = train_small(first.path());
  const RunSummary after =
      train_small(second.path(), {"--checkpoint.restore_from=" + before.checkpoint->string(), "--checkpoint.restore_optimizer=false"});
  EXPECT_EQ(after.first_step, 0);
  EXPECT_EQ(after.last_step, 22);
  EXPECT_LT(after.first_loss, before.first_loss);
}

TEST(Train, NamesARestorePointThatIsNotThere) {
  const TemporaryDirectory directory;
  train_small(directory.path(), {"--step_scheduler.max_steps=3"});
  const std::string error = error_of([&] { train_small(directory.path(), {"--checkpoint.restore_from=epoch_7_step_7"}); });
  EXPECT_THAT(error, AllOf(HasSubstr("epoch_7_step_7"), HasSubstr("epoch_0_step_3"))) << error;
}

TEST(Train, DoesNotTrainOverLaterCheckpoints) {
  const TemporaryDirectory directory;
  train_small(directory.path(), {"--step_scheduler.max_steps=4", "--step_scheduler.ckpt_every_steps=2"});
  const std::string log = read_file(directory / "logs/training.jsonl");
  for (const auto& options : {std::vector<std::string>{"--checkpoint.restore_from=epoch_0_step_2"},
                              std::vector<std::string>{"--checkpoint.restore_from=LATEST", "--checkpoint.restore_optimizer=false"}})
    EXPECT_THAT(error_of([&] { train_small(directory.path(), options); }), HasSubstr("epoch_0_step_4"));
  EXPECT_EQ(read_file(directory / "logs/training.jsonl"), log);
}

TEST(Train, GoesOnWhenTheDirectoryHoldsACheckpointOfTheSameModel) {
  const TemporaryDirectory whole, parts;
  const std::string schedule = "--lr_scheduler.wd_incr_steps=22";  // otherwise as long as the run, of which one is shorter
  train_small(whole.path(), {"--step_scheduler.max_steps=8", schedule});
  train_small(parts.path(), {"--step_scheduler.max_steps=3", schedule});
  const RunSummary summary = train_small(parts.path(), {"--step_scheduler.max_steps=8", schedule});
  EXPECT_EQ(summary.first_step, 3);
  const checkpoint::Differences differences = checkpoint::compare(whole / "checkpoints/epoch_0_step_8", parts / "checkpoints/epoch_0_step_8");
  EXPECT_TRUE(differences.same()) << testing::PrintToString(differences.state);
  const RunSummary again = train_small(parts.path(), {"--step_scheduler.max_steps=8", schedule});
  EXPECT_EQ(again.first_step, 8);
  EXPECT_EQ(again.last_step, 8);
  EXPECT_FALSE(again.checkpoint.has_value());
}

TEST(Train, RefusesACheckpointOfAnotherModel) {
  const TemporaryDirectory directory;
  train_small(directory.path(), {"--step_scheduler.max_steps=3"});
  for (const std::string from : {"--checkpoint.restore_from=LATEST", "--checkpoint.restore_from="}) {
    const std::string error = error_of([&] { train_small(directory.path(), {from, "--model.config.n_layer=3"}); });
    EXPECT_THAT(error, AllOf(HasSubstr("checkpoint: gpt2: 2 layers"), HasSubstr("recipe:     gpt2: 3 layers"))) << error;
  }
}

TEST(Train, StartsFromAPlainModelDirectoryWhenWeightsAloneAreAsked) {
  const TemporaryDirectory first, second;
  train_small(first.path(), {"--step_scheduler.max_steps=3", "--checkpoint.save_consolidated=final"});
  const std::string model = (first / "checkpoints/LATEST/model/consolidated").string();
  EXPECT_THAT(error_of([&] { train_small(second.path(), {"--checkpoint.restore_from=" + model}); }),
              AllOf(HasSubstr("no optimizer state"), HasSubstr("restore_optimizer: false")));
  const RunSummary summary = train_small(second.path(), {"--checkpoint.restore_from=" + model, "--checkpoint.restore_optimizer=false",
                                                         "--step_scheduler.max_steps=1", "--optimizer.lr=0", "--lr_scheduler=null"});
  EXPECT_EQ(summary.first_step, 0);
  EXPECT_TRUE(checkpoint::compare(model, second / "checkpoints/LATEST").same());
}

}  // namespace
}  // namespace tessera::train::test
