// What sections build: a `_target_` that is absent, null or refused, and the defaults that come with it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "config/section_recipe.h"
#include "support/support.h"
#include "tessera/config/recipe.h"

namespace tessera::config {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What a recipe's reader says, and what it reads of the recipe's sections without defaults of their own.
LoadedRecipe read(const std::string& lines) {
  const test::TemporaryDirectory directory;
  std::string rest;
  for (const auto& [section, text] :
       std::vector<std::pair<std::string, std::string>>{{"model", "{pretrained_model_name_or_path: m}"}, {"dataset", "{_target_: mock}"}})
    if (!lines.starts_with(section + ":")) rest += section + ": " + text + "\n";
  test::write_file(directory / "r.yaml", lines + "\n" + rest);
  return read_recipe(directory / "r.yaml", {}, no_variables);
}

std::string said(const LoadedRecipe& loaded) {
  std::vector<std::string> all = loaded.notes;
  for (const auto& problems : {loaded.mistakes, loaded.unsupported})
    for (const Problem& problem : problems) all.push_back(problem.what + "; " + problem.rule + "; " + problem.fix);
  return fmt::format("{}", fmt::join(all, "\n"));
}

std::string with_target(std::string section, const std::string& target) {
  const std::size_t at = section.find('@');
  return section.replace(at, 1, target);
}

/// A section whose @ is where a `_target_` would stand, and a part of what is said of it without one.
struct Section {
  const char* text;
  const char* said;
};
void PrintTo(const Section& section, std::ostream* out) { *out << section.text; }

class NullTarget : public ::testing::TestWithParam<Section> {};

/// null stands for the default, which is what there is without the key: nothing is passed over in silence.
TEST_P(NullTarget, IsNoTarget) {
  const std::string without = said(read(with_target(GetParam().text, "")));
  EXPECT_THAT(without, HasSubstr(GetParam().said));
  for (const char* null : {"_target_: null, ", "_target_: , ", "_target_: none, ", "_target_: ~, "})
    EXPECT_EQ(said(read(with_target(GetParam().text, null))), without) << null;
}

INSTANTIATE_TEST_SUITE_P(Sections, NullTarget,
                         ::testing::Values(Section{"model: {@bogus: 1, pretrained_model_name_or_path: m}", "model.bogus: unknown key"},
                                           Section{"model: {pretrained_model_name_or_path: m, backend: {@bogus: 1}}", "bogus: unknown key"},
                                           Section{"model: {config: {@hidden_size: 8}}", "names no architecture"},
                                           Section{"tokenizer: {@bogus: 1}", "tokenizer.bogus: unknown key"},
                                           Section{"dataset: {@seq_len: 8}", "dataset: has no _target_"},
                                           Section{"dataset: {_target_: mock, tokenizer: {@bogus: 1}}", "dataset.tokenizer.bogus: unknown key"},
                                           Section{"validation_dataset: {@seq_len: 8}", "validation_dataset: has no _target_"},
                                           Section{"dataloader: {@bogus: 1}", "dataloader.bogus: unknown key"},
                                           Section{"dataloader: {collate_fn: {@bogus: 1}}", "dataloader.collate_fn.bogus: unknown key"},
                                           Section{"optimizer: {@bogus: 1}", "optimizer.bogus: unknown key"},
                                           Section{"lr_scheduler: {@bogus: 1}", "lr_scheduler.bogus: unknown key"},
                                           Section{"loss_fn: {@bogus: 1}", "loss_fn.bogus: unknown key"},
                                           Section{"step_scheduler: {@bogus: 1}", "step_scheduler.bogus: unknown key"},
                                           Section{"distributed: {@bogus: 1}", "distributed.bogus: unknown key"},
                                           Section{"distributed: {mp_policy: {@bogus: 1}}", "distributed.mp_policy.bogus: unknown key"},
                                           Section{"distributed: {offload_policy: {@pin_memory: true}}", "always kept in host memory"},
                                           Section{"peft: {@dim: 8}", "peft is not supported yet"},
                                           Section{"rng: {@bogus: 1}", "rng.bogus: unknown key"}));

TEST(NullTargets, LeaveTheSectionsKeys) {
  EXPECT_EQ(read("optimizer: {_target_: null, lr: 0.5}").recipe.optimizer.lr, 0.5);
  EXPECT_EQ(read("optimizer:\n  _target_: ${UNSET_TARGET,}\n  lr: 0.5").recipe.optimizer.lr, 0.5);
  EXPECT_EQ(read("distributed: {_target_: null, tp_size: 8}").recipe.distributed.sizes.tp_size, 8);
  EXPECT_EQ(read("model: {_target_: , pretrained_model_name_or_path: m}").recipe.model.path, "m");
  EXPECT_EQ(read("model: {config: null, pretrained_model_name_or_path: m}").recipe.model.source, ModelSource::Pretrained);
}

TEST(ModelConfig, NothingMoreIsSaidOfOneThatIsNotOurs) {
  for (const char* fields : {"", ", hidden_size: 8", ", model_type: bert", ", pretrained_model_name_or_path: somewhere"}) {
    const auto with = [&](const std::string& target) { return read("model: {_target_: from_config, config: {_target_: " + target + fields + "}}"); };
    const LoadedRecipe refused = with("transformers.BertConfig");
    EXPECT_THAT(refused.mistakes, IsEmpty()) << fields;
    EXPECT_EQ(refused.unsupported.size(), 1U) << fields;
    EXPECT_TRUE(refused.recipe.model.path.empty() && refused.recipe.model.config.empty()) << fields;
    EXPECT_EQ(with("transformers.LlamaConfg").mistakes.size(), 1U) << fields;
  }
}

TEST(Optimizer, AutoModelsConfigurationsHaveTheirOwnDefaults) {
  for (const char* name : {"AdamWConfig", "AdamConfig", "FusedAdamConfig", "FlashAdamWConfig"}) {
    const std::string target = "optimizer: {_target_: nemo_automodel.components.optim.optimizer." + std::string(name);
    const Optimizer defaults = read(target + "}").recipe.optimizer;
    EXPECT_EQ(defaults.lr, 1e-4) << name;
    EXPECT_EQ(defaults.weight_decay, 0.01) << name;
    const Optimizer given = read(target + ", lr: 1, weight_decay: 0}").recipe.optimizer;
    EXPECT_EQ(given.lr, 1.0) << name;
    EXPECT_EQ(given.weight_decay, 0.0) << name;
  }
  const Optimizer fused = read("optimizer: {_target_: transformer_engine.pytorch.optimizers.FusedAdam}").recipe.optimizer;
  EXPECT_EQ(fused.lr, 1e-3);
  EXPECT_EQ(fused.weight_decay, 0.0);
}

TEST(CollateFunction, IsTheDefaultOneWithoutATarget) {
  EXPECT_EQ(read("dataloader: {collate_fn: {pad_seq_len_divisible: 8}}").recipe.dataloader.pad_seq_len_divisible, 8);
  EXPECT_THAT(said(read("dataloader: {collate_fn: {pad_seq_len_divisible: x}}")),
              HasSubstr("collate_fn.pad_seq_len_divisible: \"x\" is not a whole"));
  EXPECT_THAT(said(read("dataloader: {collate_fn: [a]}")), HasSubstr("dataloader.collate_fn: a list of 1 is not a name"));
}

}  // namespace
}  // namespace tessera::config
