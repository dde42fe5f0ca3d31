#include "tessera/train/examine.h"

#include <gmock/gmock.h>

#include "tessera/train/run.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> problems_of(const std::vector<std::string>& overrides, std::int64_t num_ranks) {
  const tessera::test::TemporaryDirectory directory;
  std::vector<std::string> texts;
  for (const Problem& problem : examine(test::load_small_recipe(directory.path(), overrides), test::no_variables, num_ranks).problems)
    texts.push_back(to_string(problem));
  return texts;
}

TEST(Examine, AutocastIsRefusedWhereTheModelComputesInAnotherDtype) {
  for (const std::string strategy : {"--distributed.strategy=fsdp2", "--distributed.strategy=ddp"}) {
    const std::string half = "--distributed.autocast_dtype=bfloat16";
    EXPECT_THAT(problems_of({strategy, half}, 2), ElementsAre(AllOf(HasSubstr("distributed.autocast_dtype: bfloat16 is not supported"),
                                                                    HasSubstr("here float32"), HasSubstr("model.torch_dtype: bfloat16"))));
    EXPECT_THAT(problems_of({strategy, half, "--model.torch_dtype=bfloat16"}, 2), IsEmpty());
    EXPECT_THAT(problems_of({strategy, "--distributed.autocast_dtype=float32"}, 2), IsEmpty());
    EXPECT_THAT(problems_of({strategy, half}, 1), IsEmpty()) << "one process has no strategy";
  }
}

TEST(Examine, AHeadInAnotherPrecisionIsRefusedWhereItCannotBe) {
  const auto problems = [](const std::string& head, const std::string& model, bool tied) {
    return problems_of({"--distributed.ep_size=2", "--distributed.moe.lm_head_precision=" + head, "--model.torch_dtype=" + model,
                        std::string("--model.config.tie_word_embeddings=") + (tied ? "true" : "false")},
                       2);
  };
  const auto refusal = [](const char* dtype) { return HasSubstr(std::string("lm_head_precision: ") + dtype + " is not supported"); };
  EXPECT_THAT(problems("bfloat16", "float32", false), Contains(refusal("bfloat16")));
  EXPECT_THAT(problems("float32", "bfloat16", true), Contains(refusal("float32")));
  EXPECT_THAT(problems("float32", "bfloat16", false), Not(Contains(refusal("float32"))));
  EXPECT_THAT(problems("float32", "float32", true), Not(Contains(refusal("float32"))));
}

/// `check` refuses what training would, before it is begun.
class ExaminedCheckpoints : public testing::Test {
 protected:
  ExaminedCheckpoints() { train(recipe({"--step_scheduler.max_steps=2"}), test::no_variables, tessera::test::one_process_backend()); }

  config::LoadedRecipe recipe(const std::vector<std::string>& overrides) const { return test::load_small_recipe(directory_.path(), overrides); }
  std::vector<std::string> problems(const std::vector<std::string>& overrides = {}, std::int64_t rank = 0) const {
    std::vector<std::string> texts;
    for (const Problem& problem : examine(recipe(overrides), test::no_variables, 1, rank).problems) texts.push_back(to_string(problem));
    return texts;
  }
  std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

 private:
  tessera::test::TemporaryDirectory directory_;
};

TEST_F(ExaminedCheckpoints, OfAnotherModelAreRefused) {
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_THAT(problems({"--model.config.n_layer=3"}), ElementsAre(AllOf(HasSubstr("recipe.yaml:"), HasSubstr("checkpoint: gpt2: 2 layers"))));
  EXPECT_THAT(problems({"--model.config.layer_norm_epsilon=1.0e-3"}),
              ElementsAre(HasSubstr("norm_eps: 1e-05 in the checkpoint, 0.001 in the recipe")));
  EXPECT_THAT(problems({"--model.config.n_layer=3"}, 1), IsEmpty()) << "said once, by rank 0";
}

TEST_F(ExaminedCheckpoints, InMidEpochTheOrderOfTheDataStays) {
  const std::vector<std::string> said = problems({"--seed=6", "--dataloader.shuffle=false"});
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("recipe.yaml:"), HasSubstr("seed: 5 in the checkpoint, 6 in the recipe")),
                                HasSubstr("dataloader.shuffle: true in the checkpoint, false in the recipe")));
}

TEST_F(ExaminedCheckpoints, ThatAreDamagedOrInTheWayAreRefused) {
  EXPECT_THAT(problems({"--checkpoint.restore_from=LATEST", "--checkpoint.restore_optimizer=false"}),
              ElementsAre(AllOf(HasSubstr("checkpoint.restore_from"), HasSubstr("later than step 0"), HasSubstr("restore_optimizer: true"))));
  std::filesystem::create_directory(checkpoints() / "epoch_0_step_9");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("epoch_0_step_9: not a complete checkpoint")));
  std::filesystem::remove(checkpoints() / "epoch_0_step_9");
  tessera::test::write_file(checkpoints() / "epoch_0_step_2/manifest.json", "{}");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("epoch_0_step_2/manifest.json")));
}

}  // namespace
}  // namespace tessera::train
