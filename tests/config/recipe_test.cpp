#include "tessera/config/recipe.h"

#include <gmock/gmock.h>

#include "config/section_recipe.h"
#include "support/support.h"

namespace tessera::config {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

LoadedRecipe fixture(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return load_recipe(test::test_data("config/recipes/" + name), overrides, no_variables);
}

std::vector<std::string> refusals(const LoadedRecipe& loaded) {
  std::vector<std::string> all;
  for (const Problem& problem : loaded.unsupported) all.push_back(problem.what);
  return all;
}

TEST(Recipe, TheClassHasNoOtherKeys) {
  const std::string target = "_target_: TrainFinetuneRecipeForNextTokenPrediction";
  EXPECT_THAT(with("recipe: {" + target + "}\n").unsupported, IsEmpty());
  EXPECT_THAT(mistakes_of("recipe: {" + target + ", seed: 1}\n"), HasSubstr("recipe.seed"));
}

TEST(Recipe, DefaultsAreAutoModels) {
  const Recipe recipe = with("").recipe;
  EXPECT_EQ(recipe.seed, 42U);
  EXPECT_EQ(recipe.step_scheduler.global_batch_size, 32);
  EXPECT_EQ(recipe.step_scheduler.local_batch_size, 1);
  EXPECT_EQ(recipe.step_scheduler.num_epochs, 10);
  EXPECT_EQ(recipe.step_scheduler.max_steps, std::nullopt);
  EXPECT_EQ(recipe.step_scheduler.ckpt_every_steps, 100);
  EXPECT_EQ(recipe.clip_grad_norm.max_norm, 1.0);
  EXPECT_FALSE(recipe.lr_scheduler.has_value());
  EXPECT_TRUE(recipe.checkpoint.enabled);
  EXPECT_EQ(recipe.checkpoint.save_consolidated, SaveConsolidated::Final);
  EXPECT_EQ(recipe.model.torch_dtype, std::nullopt);
}

TEST(Recipe, InstructionFinetune) {
  const LoadedRecipe loaded = fixture("instruction_finetune.yaml");
  const Recipe& recipe = loaded.recipe;
  EXPECT_THAT(loaded.unsupported, IsEmpty());
  EXPECT_THAT(loaded.notes, IsEmpty());
  EXPECT_EQ(recipe.seed, 7U);
  EXPECT_EQ(recipe.model.source, ModelSource::Pretrained);
  EXPECT_EQ(recipe.model.path, "models/tiny");
  EXPECT_EQ(recipe.model.torch_dtype, DType::BF16);
  EXPECT_EQ(recipe.dataset->kind, DatasetKind::ColumnMapped);
  EXPECT_THAT(recipe.dataset->paths, ElementsAre("data/train.jsonl"));
  EXPECT_EQ(recipe.dataset->column_mapping.at("context"), "passage");
  EXPECT_EQ(recipe.dataset->truncation, Truncation::LongestFirst);
  EXPECT_EQ(recipe.dataset->split, "train");
  ASSERT_EQ(recipe.validation_datasets.size(), 2U);
  EXPECT_EQ(recipe.validation_datasets[0].name, "default");
  EXPECT_THAT(recipe.validation_datasets[0].dataset.paths, ElementsAre("data/a.jsonl", "data/b.jsonl"));
  EXPECT_EQ(recipe.validation_datasets[1].name, "hard");
  EXPECT_EQ(recipe.dataloader.pad_seq_len_divisible, 8);
  EXPECT_EQ(recipe.dataloader.shuffle, true);
  EXPECT_EQ(recipe.optimizer.kind, OptimizerKind::AdamW);
  EXPECT_EQ(recipe.optimizer.lr, 2e-5);
  EXPECT_EQ(recipe.optimizer.eps, 1e-8);
  EXPECT_EQ(recipe.lr_scheduler->lr_warmup_steps, 4);
  EXPECT_EQ(recipe.clip_grad_norm.max_norm, 0.5);
  EXPECT_EQ(recipe.checkpoint.checkpoint_dir, "runs/instruction");
  EXPECT_EQ(recipe.checkpoint.save_consolidated, SaveConsolidated::Every);
}

TEST(Recipe, PretrainFromConfig) {
  const LoadedRecipe loaded = fixture("pretrain_from_config.yaml");
  const Recipe& recipe = loaded.recipe;
  EXPECT_THAT(loaded.unsupported, IsEmpty());
  EXPECT_EQ(recipe.seed, 1234U);
  EXPECT_THAT(loaded.notes, ElementsAre(HasSubstr("rng: ")));
  EXPECT_EQ(recipe.model.source, ModelSource::Config);
  EXPECT_EQ(recipe.model.config["model_type"], "llama");
  EXPECT_EQ(recipe.model.config["rope_scaling"]["factor"], 8.0);
  EXPECT_EQ(recipe.tokenizer->path, "models/tokenizer");
  EXPECT_EQ(recipe.dataset->kind, DatasetKind::Text);
  EXPECT_EQ(recipe.optimizer.kind, OptimizerKind::Adam);
  EXPECT_EQ(recipe.optimizer.weight_decay, 0.0);
  ASSERT_EQ(recipe.optimizer.param_group_overrides.size(), 2U);
  EXPECT_EQ(recipe.optimizer.param_group_overrides[0].wd_mult, 0.0);
  EXPECT_EQ(recipe.lr_scheduler->lr_decay_style, DecayStyle::WSD);
  EXPECT_EQ(recipe.lr_scheduler->lr_wsd_decay_style, WsdDecayStyle::MinusSqrt);
  EXPECT_EQ(recipe.loss_fn.kind, LossKind::FusedLinearCrossEntropy);
  EXPECT_EQ(recipe.loss_fn.logit_softcapping, 30.0);
  EXPECT_THAT(recipe.freeze_config.patterns, ElementsAre("embed_tokens"));
}

TEST(Recipe, EveryParallelismIsTyped) {
  const LoadedRecipe loaded = fixture("every_parallelism.yaml");
  const Distributed& distributed = loaded.recipe.distributed;
  EXPECT_EQ(distributed.sizes.dp_size, std::nullopt);
  EXPECT_EQ(distributed.sizes.ep_size, 8);
  EXPECT_EQ(distributed.cp_attention, CpAttention::AllToAll);
  EXPECT_EQ(distributed.activation_checkpointing, ActivationCheckpointing::Selective);
  EXPECT_FALSE(distributed.fsdp2.defer_fsdp_grad_sync);
  EXPECT_EQ(distributed.fsdp2.mp_policy->reduce_dtype, DType::F32);
  EXPECT_EQ(distributed.pipeline->pp_schedule, PipelineSchedule::Interleaved1F1B);
  EXPECT_EQ(distributed.pipeline->round_virtual_stages_to_pp_multiple, StageRounding::Down);
  EXPECT_FALSE(distributed.moe->wrap_outer_model);
  EXPECT_EQ(loaded.recipe.packed_sequence.packing_strategy, PackingStrategy::Balanced);
  EXPECT_EQ(loaded.recipe.dataset->kind, DatasetKind::Chat);
  EXPECT_TRUE(loaded.recipe.moe_metrics.detailed);
  EXPECT_EQ(loaded.recipe.model.path, "models/moe");
}

TEST(Recipe, InertSectionsAreNotedOnce) {
  const std::vector<std::string> notes = fixture("every_parallelism.yaml").notes;
  for (const char* section : {"ci: ", "compile: ", "nvtx: ", "wandb: ", "model.backend: ", "step_scheduler.gc_every_steps: ", "optimizer: "}) {
    EXPECT_EQ(std::ranges::count_if(notes, [&](const std::string& note) { return note.starts_with(section); }), 1) << section;
  }
}

TEST(Recipe, MegatronFsdp) {
  const Recipe recipe = fixture("megatron_fsdp_pretrain.yaml").recipe;
  EXPECT_EQ(recipe.distributed.strategy, Strategy::MegatronFsdp);
  EXPECT_EQ(recipe.distributed.megatron_fsdp.zero_dp_strategy, 1);
  EXPECT_EQ(recipe.model.config["model_type"], "gpt2");
  EXPECT_EQ(recipe.model.config["n_layer"], 2);
  EXPECT_EQ(recipe.model.config["n_embd"], 768);
  EXPECT_THAT(recipe.dataset->paths, ElementsAre("0.3", "data/one_text_document", "0.7", "data/two_text_document"));
  EXPECT_EQ(recipe.dataset->tokenizer->path, "openai-community/gpt2");
  EXPECT_EQ(recipe.dataloader.dataloader_type, MegatronOrder::Cyclic);
}

TEST(Recipe, WhatIsNotDoneIsRefusedByName) {
  const LoadedRecipe loaded = fixture("refused.yaml");
  const std::vector<std::string> all = refusals(loaded);
  for (const char* subject : {"dataset._target_: \"my_data.py:make_dataset\"", "optimizer._target_: \"dion.Muon\"", "loss_fn._target_",
                              "peft._target_", "quantization", "fp8", "neftune", "checkpoint.model_save_format: \"torch_save\""}) {
    EXPECT_THAT(all, Contains(AllOf(HasSubstr(subject), HasSubstr("not supported"))));
  }
  EXPECT_THAT(all, Not(Contains(HasSubstr("qat"))));  // switched off
  EXPECT_THAT(all, Not(Contains(HasSubstr("skypilot"))));
}

TEST(Recipe, OtherKindsOfTrainingAreOneRefusal) {
  const LoadedRecipe loaded = load_recipe(parse_yaml("recipe: TrainEagle3Recipe\nrecipe_args: {x: 1}\n", "r.yaml"), no_variables);
  EXPECT_THAT(refusals(loaded), ElementsAre("recipe: \"TrainEagle3Recipe\" is not supported"));
}

TEST(Recipe, EveryMistakeIsReportedAtOnceWithItsLine) {
  const std::string message = mistakes_of(
      "seed: -1\nstep_scheduler:\n  global_batchsize: 8\n  local_batch_size: four\n  max_steps: 0\noptimzer: {}\nlr_scheduler: {lr_decay_style: "
      "cosin}\n"
      "optimizer: {_target_: torch.optim.AdmW}\ncheckpoint: {checkpoint_dir: $UNSET_VARIABLE}\n");
  EXPECT_THAT(message, HasSubstr("r.yaml:1: seed: -1 is negative"));
  EXPECT_THAT(message, AllOf(HasSubstr("r.yaml:3: step_scheduler.global_batchsize: unknown key"), HasSubstr("did you mean global_batch_size")));
  EXPECT_THAT(message, HasSubstr("r.yaml:4: step_scheduler.local_batch_size: \"four\" is not a whole number"));
  EXPECT_THAT(message, AllOf(HasSubstr("r.yaml:5: step_scheduler.max_steps: 0 is out of range"), HasSubstr("it is at least 1")));
  EXPECT_THAT(message, AllOf(HasSubstr("r.yaml:6: optimzer: unknown key"), HasSubstr("did you mean optimizer?")));
  EXPECT_THAT(message, AllOf(HasSubstr("unknown value \"cosin\""), HasSubstr("did you mean cosine?")));
  EXPECT_THAT(message, AllOf(HasSubstr("unknown optimizer \"torch.optim.AdmW\""), HasSubstr("torch.optim.AdamW")));
  EXPECT_THAT(message, HasSubstr("r.yaml:9: $UNSET_VARIABLE: the environment variable UNSET_VARIABLE is not set"));
}

/// Whoever goes on has to know what was not read.
TEST(Recipe, MistakesComeWithWhatCouldBeRead) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "r.yaml",
                   "model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock, seq_len: x}\ndistributed: {tp_size: 2, tp_sise: 2}\n"
                   "checkpoint: {checkpoint_dir: $UNSET}\noptimizer: {lr: fast, lrr: 1}\n");
  const LoadedRecipe loaded = read_recipe(directory / "r.yaml", std::vector<std::string>{"--optimizerr.lr=1"}, no_variables);
  EXPECT_EQ(loaded.mistakes.size(), 6U);
  EXPECT_EQ(loaded.half_read, (std::set<std::string>{"dataset", "distributed", "checkpoint", "optimizer", "optimizerr"}));
  EXPECT_TRUE(loaded.is_read("model"));
  EXPECT_EQ(loaded.recipe.model.path, "m");
  EXPECT_TRUE(loaded.is_read_but_for_unknown_keys("distributed"));
  EXPECT_FALSE(loaded.is_read_but_for_unknown_keys("optimizer"));
  EXPECT_EQ(loaded.recipe.distributed.sizes.tp_size, 2);
}

TEST(Recipe, MissingSectionsAreMistakes) {
  const std::string message = error_of([] { load_recipe(parse_yaml("seed: 1\n", "r.yaml"), no_variables); });
  EXPECT_THAT(message, AllOf(HasSubstr("model is missing"), HasSubstr("dataset is missing")));
  EXPECT_THAT(error_of([] { load_recipe(parse_yaml("", "r.yaml"), no_variables); }), HasSubstr("a recipe is a map of sections"));
}

/// Where AutoModel had them once: said, and not that they are missing.
TEST(Recipe, DatasetsInsideLoadersAreRefusedWithTheirPlace) {
  const LoadedRecipe loaded = load_recipe(parse_yaml("model: {pretrained_model_name_or_path: m}\ndataloader: {dataset: {_target_: mock}}\n"
                                                     "validation_dataloader: {dataset: {_target_: mock}}\n",
                                                     "r.yaml"),
                                          no_variables);
  EXPECT_THAT(refusals(loaded), ElementsAre("dataloader.dataset is not supported", "validation_dataloader.dataset is not supported"));
  EXPECT_EQ(loaded.unsupported[0].fix, "move it to dataset");
  EXPECT_EQ(loaded.unsupported[1].fix, "move it to validation_dataset");
  EXPECT_THAT(
      error_of([] { load_recipe(parse_yaml("model: {pretrained_model_name_or_path: m}\ndataloader: {dataset: null}\n", "r.yaml"), no_variables); }),
      HasSubstr("dataset is missing"));
}

TEST(Recipe, OverridesAreTypedAndNamed) {
  const LoadedRecipe loaded = fixture("instruction_finetune.yaml", {"--optimizer.lr", "1e-3", "--step_scheduler.max_steps=none",
                                                                    "--optimizer.betas.1", "0.99", "--validation_dataset_hard", "none"});
  EXPECT_EQ(loaded.recipe.optimizer.lr, 1e-3);
  EXPECT_EQ(loaded.recipe.step_scheduler.max_steps, std::nullopt);
  EXPECT_EQ(loaded.recipe.optimizer.betas[1], 0.99);
  EXPECT_EQ(loaded.recipe.validation_datasets.size(), 1U);
  const std::string message = error_of([] { fixture("instruction_finetune.yaml", {"--optimizer.lr", "fast", "--optimizer.learning_rate", "1"}); });
  EXPECT_THAT(message, HasSubstr("error: command line: optimizer.lr: \"fast\" is not a number"));
  EXPECT_THAT(message, HasSubstr("command line: optimizer.learning_rate"));
}

TEST(Recipe, SeedWinsOverRngWhereverItStands) {
  EXPECT_EQ(with("seed: 5\nrng: {seed: 6}\n").recipe.seed, 5U);
  EXPECT_EQ(with("rng: {seed: 6}\nseed: 5\n").recipe.seed, 5U);
  EXPECT_EQ(with("rng: {seed: 6}\n").recipe.seed, 6U);
}

TEST(Recipe, ValuesOfVariablesDoNotShowInMistakes) {
  const Environment environment = [](std::string_view) -> std::optional<std::string> { return "hunter2"; };
  const std::string message = error_of([&] {
    load_recipe(
        parse_yaml("model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\nstep_scheduler: {max_steps: \"${STEPS}\"}\n", "r.yaml"),
        environment);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("${STEPS}"), Not(HasSubstr("hunter2"))));
  const std::string target = error_of([&] {
    load_recipe(parse_yaml("model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\noptimizer: {_target_: \"${O}\"}\n", "r.yaml"),
                environment);
  });
  EXPECT_THAT(target, AllOf(HasSubstr("unknown optimizer \"${O}\""), Not(HasSubstr("hunter2"))));
}

TEST(Recipe, AnchorsMayStandAtTheTop) { EXPECT_NO_THROW(with("_template: &t {lr: 1e-3}\noptimizer: {<<: *t}\n")); }

}  // namespace
}  // namespace tessera::config
