#include "tessera/train/routing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/compare.h"
#include "tessera/model/config.h"
#include "tessera/train/routing_metrics.h"
#include "tessera/train/run.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
namespace {

namespace fs = std::filesystem;
using tessera::test::error_of;
using tessera::test::TemporaryDirectory;
using testing::HasSubstr;

/// Eight steps of a committed golden on random sentences.
config::LoadedRecipe load_expert_recipe(const fs::path& directory, const std::string& model, const std::vector<std::string>& overrides) {
  tessera::test::write_file(directory / "recipe.yaml", fmt::format(R"(seed: 5
step_scheduler: {{global_batch_size: 4, local_batch_size: 2, num_epochs: 1, ckpt_every_steps: 4}}
model: {{pretrained_model_name_or_path: {1}}}
dataset: {{_target_: mock_unpacked, num_sentences: 32, mean_len: 14, std_len: 6, vocab_size: 64, max_sentence_len: 30}}
optimizer: {{_target_: adamw, lr: 1.0e-3}}
checkpoint: {{checkpoint_dir: {0}/checkpoints, save_consolidated: false}}
logging: {{directory: {0}/logs}}
)",
                                                                   directory.string(), tessera::test::test_data("goldens/" + model).string()));
  return config::load_recipe(directory / "recipe.yaml", overrides, no_variables);
}

std::vector<Json> train_experts(const fs::path& directory, const std::string& model, const std::vector<std::string>& overrides) {
  train(load_expert_recipe(directory, model, overrides), no_variables, tessera::test::one_process_backend());
  return json_lines(directory / "logs/training.jsonl");
}

/// Layers 1, 3 and 4 of five have experts. The numbers below were computed by torch.
ExpertTraining counted_step() {
  ExpertTraining experts{.num_tokens = 4, .layers = std::vector<model::LayerRouting>(5)};
  experts.layers[1] = {.loads = {6, 0, 1, 1}, .num_dropped = 2, .balance_loss = 2.0, .z_loss = 0.0};
  experts.layers[3] = {.loads = {2, 2, 2, 2}, .num_dropped = 0, .balance_loss = 4.0, .z_loss = 0.0};
  experts.layers[4] = {.loads = {3, 5, 0, 0}, .num_dropped = 1, .balance_loss = 6.0, .z_loss = 0.0};
  return experts;
}

TEST(RoutingMetrics, AreThoseOfAutoModel) {
  const std::map<std::string, double> expected = {{"moe/cv_mean", 0.859583757388083},
                                                  {"moe/cv_median", 1.224744871391589},
                                                  {"moe/cv_min", 0.0},
                                                  {"moe/cv_max", 1.35400640077266},
                                                  {"moe/expert_utilization_p25", 0.5},
                                                  {"moe/expert_utilization_median", 1.0},
                                                  {"moe/expert_utilization_p75", 1.5},
                                                  {"moe/expert_utilization_min", 0.0},
                                                  {"moe/expert_utilization_max", 3.0},
                                                  {"moe/dead_expert_frac_mean", 0.25},
                                                  {"moe/expert_diversity_mean", 0.6687165567480085},
                                                  {"moe/expert_diversity_min", 0.4844548102195962},
                                                  {"moe/aux_loss_mean", 1.0}};
  const std::map<std::string, double> brief = routing_metrics(counted_step(), 0, false);
  ASSERT_EQ(brief.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_NEAR(brief.at(name), value, 1e-12) << name;

  const std::map<std::string, double> detailed = routing_metrics(counted_step(), 1, true);
  EXPECT_EQ(detailed.size(), brief.size() + 2 + 3 * 5);
  EXPECT_EQ(detailed.at("moe_expert_utilization/layer_1_expert_0"), 3.0);
  EXPECT_EQ(detailed.at("moe_expert_utilization/layer_1_expert_1"), 0.0);
  EXPECT_NEAR(detailed.at("moe/layer_4/cv"), 1.224744871391589, 1e-12);
  EXPECT_NEAR(detailed.at("moe/layer_1/expert_diversity"), 0.5216948600244291, 1e-12);
  EXPECT_EQ(detailed.at("moe/layer_4/dead_expert_frac"), 0.5);
  EXPECT_EQ(detailed.at("moe/layer_3/utilization_mean"), 1.0);
  EXPECT_EQ(detailed.at("moe/layer_4/aux_loss"), 1.5);
  EXPECT_EQ(num_dropped(counted_step()), 3);
}

TEST(RoutingMetrics, OfAStepWithoutTokensAreFinite) {
  ExpertTraining experts{.layers = {{.loads = {0, 0}}}};
  const std::map<std::string, double> metrics = routing_metrics(experts, 1, true);
  EXPECT_EQ(metrics.at("moe/cv_mean"), 0.0);
  EXPECT_EQ(metrics.at("moe/dead_expert_frac_mean"), 1.0);
  EXPECT_EQ(metrics.at("moe/expert_diversity_min"), 0.0);
}

TEST(CorrectionBias, MovesAgainstTheLoad) {
  const fs::path directory = tessera::test::test_data("goldens/glm4_moe");
  const auto model =
      parallel::CausalLM::from_pretrained(directory, model::read_model_spec(directory), tessera::test::one_process(), {.trainable = true});
  const at::Tensor bias = model.model.store->parameter("layers.1.correction_bias").weight;
  const at::Tensor before = bias.clone();
  std::vector<model::LayerRouting> layers(2);
  layers[1].loads = {5, 1, 2, 2, 0, 2};  // 2 on average
  update_correction_biases(*model.model.store, layers, 0.25);
  const at::Tensor change = bias - before;
  const std::vector<float> expected{-0.25F, 0.25F, 0.0F, 0.0F, 0.25F, 0.0F};
  for (std::int64_t expert = 0; expert < 6; ++expert)
    EXPECT_NEAR(change.data_ptr<float>()[expert], expected[static_cast<std::size_t>(expert)], 1e-7) << expert;
}

TEST(ExpertRecipe, MetricsAreWrittenBrieflyOrInDetail) {
  const TemporaryDirectory directory;
  const std::vector<Json> lines = train_experts(
      directory.path(), "glm4_moe",
      {"--moe_metrics.enabled=true", "--moe_metrics.mode=detailed", "--moe_metrics.detailed_every_steps=3", "--moe_metrics.top_k_experts=2"});
  ASSERT_EQ(lines.size(), 8U);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    EXPECT_GT(lines[line].at("moe/expert_diversity_mean").get<double>(), 0.0);
    EXPECT_EQ(lines[line].contains("moe/layer_1/cv"), (line + 1) % 3 == 0) << line;
    EXPECT_FALSE(lines[line].contains("moe/layer_0/cv")) << "a dense layer";
  }
  const TemporaryDirectory without;
  for (const Json& line : train_experts(without.path(), "glm4_moe", {}))
    for (const auto& [key, value] : line.items()) EXPECT_EQ(key.find("moe"), std::string::npos);
}

TEST(ExpertRecipe, LossesAndLimitsReachTheRouter) {
  const auto last = [](const std::vector<std::string>& overrides) {
    const TemporaryDirectory directory;
    return train_experts(directory.path(), "mixtral", overrides).back();
  };
  const std::string metrics = "--moe_metrics.enabled=true";
  const std::string faster = "--optimizer.lr=1e-2";
  const Json plain = last({metrics}), watched = last({metrics, faster, "--model.moe_overrides.aux_loss_coeff=1e-9"}),
             balanced = last({metrics, faster, "--model.moe_overrides.aux_loss_coeff=10"});
  EXPECT_LT(balanced.at("moe/aux_loss_mean").get<double>(), watched.at("moe/aux_loss_mean").get<double>());
  EXPECT_FALSE(plain.contains("moe/aux_loss_mean"));
  EXPECT_EQ(last({metrics, faster, "--model.router_aux_loss_coef=10"}).at("loss"), balanced.at("loss"))
      << "the field by which the model's own configuration names it";
  EXPECT_GT(last({metrics, "--model.moe_overrides.z_loss_coeff=1"}).at("moe/z_loss_mean").get<double>(), 0.0);
  EXPECT_LT(last({metrics, "--model.backend.fake_balanced_gate=true"}).at("moe/cv_max"), 0.1) << "even, but for padding and the last turn";
  EXPECT_GT(last({"--model.moe_overrides.capacity_factor=0.5"}).at("moe/num_dropped").get<double>(), 0.0);
  EXPECT_NE(last({metrics, "--model.moe_overrides.train_gate=false"}).at("loss"), plain.at("loss"));
}

/// The biases that two runs end with, and whether a run that was resumed ends with those of one that was not.
TEST(ExpertRecipe, CorrectionBiasesAreTrainedSavedAndResumed) {
  const TemporaryDirectory whole, resumed, fixed;
  const std::vector<std::string> updates{"--model.moe_overrides.gate_bias_update_factor=0.01"};
  train_experts(whole.path(), "glm4_moe", updates);
  fs::create_directories(resumed / "checkpoints");
  fs::copy(whole / "checkpoints/epoch_0_step_4", resumed / "checkpoints/epoch_0_step_4", fs::copy_options::recursive);
  train_experts(resumed.path(), "glm4_moe", updates);
  EXPECT_TRUE(checkpoint::compare(whole / "checkpoints/LATEST", resumed / "checkpoints/LATEST").same());

  train_experts(fixed.path(), "glm4_moe", {});
  const auto bias = [](const fs::path& directory) {
    const auto model = model::CausalLM::from_config(model::read_model_spec(tessera::test::test_data("goldens/glm4_moe")), 1, {});
    checkpoint::restore(directory / "checkpoints/LATEST", checkpoint::model_signature(model.spec, model.store->table()), *model.store, nullptr,
                        {.restore_optimizer = false});
    return model.store->parameter("layers.1.correction_bias").weight.clone();
  };
  const double moved = (bias(whole.path()) - bias(fixed.path())).abs().max().item<double>();
  EXPECT_GT(moved, 0.0);
  EXPECT_LE(moved, 8 * 0.01 + 1e-6) << "a step moves a bias by 0.01 at most";
}

TEST(ExpertRecipe, RoutingIsSavedForBlocksThatRunAgainWhenExpertsAreSpread) {
  const TemporaryDirectory directory;
  const auto saves = [&](const std::vector<std::string>& overrides) {
    return routing_options(load_expert_recipe(directory.path(), "mixtral", overrides).recipe).save_routing;
  };
  EXPECT_FALSE(saves({}));
  EXPECT_TRUE(saves({"--distributed.ep_size=2"}));
  EXPECT_FALSE(saves({"--distributed.ep_size=2", "--distributed.moe.ignore_router_for_ac=false"}));
}

TEST(ExpertRecipe, WhatAModelDoesNotHaveIsRefused) {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::string& model, const std::vector<std::string>& overrides) {
    return error_of([&] { train_experts(directory.path(), model, overrides); });
  };
  EXPECT_THAT(refusal("qwen3", {"--model.moe_overrides.aux_loss_coeff=0.1"}), HasSubstr("model.moe_overrides does not go with qwen3"));
  EXPECT_THAT(refusal("mixtral", {"--model.moe_overrides.gate_bias_update_factor=0.1"}), HasSubstr("its router has no correction bias"));
  EXPECT_THAT(refusal("glm4_moe", {"--model.moe_overrides.gate_bias_update_factor=0.1", "--model.moe_overrides.train_gate=false"}),
              HasSubstr("a router that is not trained keeps its correction bias"));
}

}  // namespace
}  // namespace tessera::train::test
