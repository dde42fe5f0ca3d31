#include "tessera/train/objects.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/train/recipe_data.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
namespace {

using tessera::test::error_of;
using testing::HasSubstr;

class Objects : public testing::Test {
 protected:
  TrainingObjects build(const std::vector<std::string>& overrides = {}) {
    return build_objects(load_small_recipe(directory_.path(), overrides), no_variables, tessera::test::one_process_backend());
  }
  std::string golden(const std::string& name) { return tessera::test::test_data("goldens/" + name).string(); }
  tessera::test::TemporaryDirectory directory_;
};

TEST_F(Objects, StepsAreEpochsOrTheMaximum) {
  EXPECT_EQ(build().total_steps, 22);
  EXPECT_EQ(build({"--step_scheduler.max_steps=5"}).total_steps, 5);
  EXPECT_EQ(build({"--step_scheduler.max_steps=500"}).total_steps, 22);
  EXPECT_EQ(build({"--step_scheduler.max_steps=500", "--step_scheduler.num_epochs=null"}).total_steps, 500);
  EXPECT_EQ(build({"--step_scheduler.num_epochs=null"}).total_steps, 110) << "ten epochs";
  EXPECT_EQ(build({"--dataset.num_sentences=45"}).total_steps, 24) << "what is left over at the end of an epoch makes a short step";
}

TEST_F(Objects, TheModelIsTheDirectorysWithTheRecipesChanges) {
  const auto plan = [&](const std::vector<std::string>& changes) {
    std::vector<std::string> overrides = {"--model._target_=from_pretrained", "--model.config=null",
                                          "--model.pretrained_model_name_or_path=" + golden("gpt2")};
    overrides.insert(overrides.end(), changes.begin(), changes.end());
    return plan_model(load_small_recipe(directory_.path(), overrides), no_variables);
  };
  EXPECT_TRUE(plan({}).pretrained);
  EXPECT_EQ(plan({}).directory, golden("gpt2"));
  EXPECT_EQ(plan({}).dtype, DType::F32);
  EXPECT_EQ(plan({"--model.torch_dtype=bf16"}).dtype, DType::BF16);
  EXPECT_EQ(plan({}).spec.residual_dropout, 0.0);
  EXPECT_EQ(plan({"--model.resid_pdrop=0.25"}).spec.residual_dropout, 0.25);
  EXPECT_EQ(plan({"--loss_fn._target_=fused_linear", "--loss_fn.logit_softcapping=30.0"}).spec.final_soft_cap, 30.0);
}

TEST_F(Objects, AMixedPrecisionPolicySaysWhatTheModelComputesIn) {
  const auto dtype = [&](const std::vector<std::string>& overrides) {
    return plan_model(load_small_recipe(directory_.path(), overrides), no_variables).dtype;
  };
  EXPECT_EQ(dtype({"--distributed.mp_policy.reduce_dtype=bf16"}), DType::F32);
  EXPECT_EQ(dtype({"--distributed.mp_policy.param_dtype=bf16"}), DType::BF16);
  EXPECT_EQ(dtype({"--distributed.mp_policy.param_dtype=bf16", "--distributed.ep_size=2", "--distributed.moe.mp_policy.param_dtype=fp32"}),
            DType::F32);
}

TEST_F(Objects, RandomWeightsOfADirectorysConfiguration) {
  const ModelPlan plan = plan_model(
      load_small_recipe(directory_.path(), {"--model.config=null", "--model.pretrained_model_name_or_path=" + golden("gpt2")}), no_variables);
  EXPECT_FALSE(plan.pretrained);
  EXPECT_EQ(plan.spec.vocab_size, 320);
}

TEST_F(Objects, FreezesWhatTheRecipeNames) {
  const auto frozen = [&](const std::vector<std::string>& overrides) {
    const TrainingObjects objects = build(overrides);
    std::vector<std::string> result;
    for (const model::ParameterSpec& parameter : objects.model.model.store->table().parameters)
      if (!objects.model.model.store->parameter(parameter.name).trainable) result.push_back(parameter.name);
    return result;
  };
  EXPECT_TRUE(frozen({}).empty());
  EXPECT_EQ(frozen({"--freeze_config.freeze_embeddings=true"}), (std::vector<std::string>{"embedding.weight", "position_embedding.weight"}));
  EXPECT_EQ(frozen({"--freeze_config.patterns=['h\\.1\\.mlp\\.c_fc']"}), (std::vector<std::string>{"layers.1.up.weight", "layers.1.up.bias"}));
  EXPECT_THAT(tessera::test::error_of([&] { build({"--freeze_config.freeze_language_model=true"}); }),
              HasSubstr("freeze_config leaves no parameter to train"));
}

/// What add_bos_token and add_eos_token say is in the samples, whichever section says it.
TEST_F(Objects, TheTokenizersSwitchesReachTheSamples) {
  const auto tokenizer = directory_ / "tokenizer", text = directory_ / "text.jsonl";
  std::filesystem::create_directory(tokenizer);
  std::filesystem::copy_file(tessera::test::test_data("fixtures/tokenizer/byte_level.json"), tokenizer / "tokenizer.json");
  tessera::test::write_file(tokenizer / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  tessera::test::write_file(text, R"({"q": "a", "a": "b"})");
  const auto first_sample = [&](const std::string& section, const std::string& switches) {
    const config::LoadedRecipe recipe = load_small_recipe(
        directory_.path(),
        {"--model.config.vocab_size=500", "--validation_dataset=null",
         fmt::format("--dataset={{_target_: instruction, path_or_dataset_id: {}, column_mapping: {{question: q, answer: a}}}}", text.string()),
         fmt::format("--{}={{pretrained_model_name_or_path: {}{}}}", section, tokenizer.string(), switches)});
    return build_recipe_data(recipe, no_variables).dataset->sample(0).input_ids;
  };
  for (const char* section : {"tokenizer", "dataset.tokenizer"}) {
    const auto usual = first_sample(section, ""), bare = first_sample(section, ", add_bos_token: false");
    ASSERT_EQ(usual.size(), bare.size() + 1) << section;
    EXPECT_EQ(usual[0], 0);
    EXPECT_TRUE(std::equal(bare.begin(), bare.end(), usual.begin() + 1));
    EXPECT_EQ(first_sample(section, ", add_bos_token: true"), usual);
  }
}

TEST_F(Objects, NamesAModelThatIsNotThere) {
  EXPECT_THAT(
      error_of([&] { build({"--model._target_=from_pretrained", "--model.config=null", "--model.pretrained_model_name_or_path=org/absent-model"}); }),
      HasSubstr("org/absent-model"));
}

TEST_F(Objects, RefusesRandomTokensBeyondTheVocabulary) {
  EXPECT_THAT(error_of([&] { build({"--dataset.vocab_size=81"}); }), HasSubstr("vocab_size: 81 does not fit the model's vocabulary of 80"));
}

TEST_F(Objects, RefusesAScheduleThatCannotBe) {
  EXPECT_THAT(error_of([&] { build({"--lr_scheduler.lr_warmup_steps=100"}); }), HasSubstr("lr_warmup_steps"));
}

}  // namespace
}  // namespace tessera::train::test
