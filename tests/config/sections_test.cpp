// Rules inside sections, each with the recipe that breaks it.
#include <gmock/gmock.h>

#include "config/section_recipe.h"

namespace tessera::config {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Optimizer, TargetsDecideDecayAndDefaults) {
  EXPECT_EQ(with("optimizer: {_target_: torch.optim.AdamW}").recipe.optimizer.weight_decay, 0.01);
  EXPECT_EQ(with("optimizer: {_target_: torch.optim.Adam}").recipe.optimizer.weight_decay, 0.0);
  EXPECT_EQ(with("optimizer: {_target_: torch.optim.Adam, decoupled_weight_decay: true}").recipe.optimizer.kind, OptimizerKind::AdamW);
  EXPECT_EQ(with("optimizer: {_target_: fused_adam, adam_w_mode: false}").recipe.optimizer.kind, OptimizerKind::Adam);
  EXPECT_EQ(with("optimizer: {lr: 1e-4}").recipe.optimizer.kind, OptimizerKind::AdamW);
}

TEST(Optimizer, RangesAndForeignKeys) {
  EXPECT_THAT(mistakes_of("optimizer: {lr: -1}"), HasSubstr("at least 0"));
  EXPECT_THAT(mistakes_of("optimizer: {betas: [0.9, 1]}"), HasSubstr("less than 1"));
  EXPECT_THAT(mistakes_of("optimizer: {betas: [0.9]}"), HasSubstr("list of two numbers"));
  EXPECT_THAT(mistakes_of("optimizer: {eps: 0}"), HasSubstr("greater than 0"));
  EXPECT_THAT(mistakes_of("optimizer: {lr: .inf}"), HasSubstr("not finite"));
  EXPECT_THAT(mistakes_of("optimizer: {_target_: torch.optim.AdamW, adam_w_mode: true}"), HasSubstr("optimizer.adam_w_mode: unknown key"));
  EXPECT_THAT(mistakes_of("optimizer: {param_group_overrides: [{lr_mult: 2}]}"), HasSubstr("has no pattern"));
  EXPECT_THAT(refusals_of("optimizer: {amsgrad: true}"), Contains("optimizer.amsgrad: true is not supported"));
  EXPECT_THAT(refusals_of("optimizer: {amsgrad: false, foreach: false, fused: true}"), IsEmpty());
}

TEST(LrScheduler, RulesAcrossKeys) {
  EXPECT_THAT(mistakes_of("lr_scheduler: {lr_decay_style: WSD}"), HasSubstr("needs wsd_decay_steps"));
  EXPECT_THAT(mistakes_of("lr_scheduler: {lr_warmup_steps: 10, lr_decay_steps: 10}"), HasSubstr("not below lr_decay_steps"));
  EXPECT_THAT(mistakes_of("lr_scheduler: {lr_warmup_steps: 0.1}"), HasSubstr("not a whole number"));
  EXPECT_THAT(mistakes_of("lr_scheduler: {start_wd: 0.1, end_wd: 0.2}"), HasSubstr("wd_incr_style is constant"));
  EXPECT_THAT(mistakes_of("lr_scheduler: {start_wd: 0.2, end_wd: 0.1, wd_incr_style: linear}"), HasSubstr("end_wd is below start_wd"));
  for (const char* one : {"start_wd: 0.0", "end_wd: 0.1", "start_wd: 0.2", "start_wd: 0.1, end_wd: 0.1"})
    EXPECT_NO_THROW(with("optimizer: {weight_decay: 0.1}\nlr_scheduler: {" + std::string(one) + "}")) << "the other is the optimizer's: " << one;
  EXPECT_EQ(with("lr_scheduler: {lr_decay_style: inverse-square-root}").recipe.lr_scheduler->lr_decay_style, DecayStyle::InverseSquareRoot);
}

TEST(Loss, KindsHaveTheirOwnKeys) {
  EXPECT_THAT(with("loss_fn: {_target_: chunked, chunk_len: 64}").notes, Contains(HasSubstr("loss_fn.chunk_len: has no effect")));
  EXPECT_THAT(mistakes_of("loss_fn: {_target_: masked, chunk_len: 64}"), HasSubstr("unknown key"));
  EXPECT_THAT(refusals_of("loss_fn: {_target_: masked, reduction: mean}"), Contains("loss_fn.reduction: \"mean\" is not supported"));
  EXPECT_THAT(refusals_of("loss_fn: {_target_: masked, ignore_index: 7}"), Contains("loss_fn.ignore_index: 7 is not supported"));
  EXPECT_THAT(refusals_of("loss_fn: {_target_: masked, ignore_index: -100}"), IsEmpty());
  EXPECT_EQ(with("loss_fn: te_parallel").recipe.loss_fn.kind, LossKind::TEParallelCrossEntropy);
}

TEST(ModelSection, SourcesAndDtypes) {
  EXPECT_THAT(mistakes_of("model: {_target_: from_pretrained}"), HasSubstr("pretrained_model_name_or_path is missing"));
  EXPECT_THAT(mistakes_of("model: {_target_: from_config, config: {hidden_size: 8}}"), HasSubstr("names no architecture"));
  EXPECT_THAT(mistakes_of("model: {pretrained_model_name_or_pth: m}"), HasSubstr("did you mean pretrained_model_name_or_path?"));
  EXPECT_THAT(mistakes_of("model: {pretrained_model_name_or_path: m, torch_dtype: float33}"), HasSubstr("not a dtype"));
  EXPECT_THAT(refusals_of("model: {pretrained_model_name_or_path: m, torch_dtype: fp16}"), Contains("model.torch_dtype: \"fp16\" is not supported"));
  EXPECT_EQ(with("model: {pretrained_model_name_or_path: m, torch_dtype: auto}").recipe.model.torch_dtype, std::nullopt);
  EXPECT_EQ(with("model: {pretrained_model_name_or_path: m, torch_dtype: torch.bfloat16}").recipe.model.torch_dtype, DType::BF16);
}

TEST(ModelSection, ConfigurationsAreJoined) {
  const Model model = with(
                          "model:\n  _target_: from_config\n  config: {_target_: transformers.AutoConfig.from_pretrained, "
                          "pretrained_model_name_or_path: dir, num_hidden_layers: 2}\n"
                          "  rope_theta: 1e6\n")
                          .recipe.model;
  EXPECT_EQ(model.path, "dir");
  EXPECT_EQ(model.config, Json::parse(R"({"num_hidden_layers": 2, "rope_theta": 1e6})"));
  EXPECT_EQ(with("model: {_target_: from_config, config: {_target_: transformers.Qwen3Config, hidden_size: 64}}").recipe.model.config["model_type"],
            "qwen3");
  EXPECT_THAT(refusals_of("model: {_target_: from_config, config: {_target_: transformers.BertConfig, model_type: bert}}"),
              Contains(HasSubstr("BertConfig")));
}

TEST(ModelSection, BackendNamesAreChecked) {
  const std::string begin = "model:\n  pretrained_model_name_or_path: m\n  backend: ";
  EXPECT_THAT(mistakes_of(begin + "{attn: tee}\n"), HasSubstr("model.backend.attn: unknown value \"tee\""));
  EXPECT_THAT(refusals_of(begin + "{te_fp8: {recipe: mxfp8}}\n"), Contains("model.backend.te_fp8 is not supported"));
  EXPECT_TRUE(with(begin + "{fake_balanced_gate: true, experts: te, dispatcher: deepep}\n").recipe.model.backend.fake_balanced_gate);
  EXPECT_THAT(mistakes_of(begin + "{dispatcher: deepepp}\n"), HasSubstr("did you mean deepep"));
}

TEST(ModelSection, OverridesOfRoutingAreRead) {
  const std::string begin = "model:\n  pretrained_model_name_or_path: m\n  moe_overrides: ";
  const MoeOverrides read = with(begin +
                                 "{aux_loss_coeff: 1e-3, aux_loss_scope: microbatch, z_loss_coeff: 0.5, capacity_factor: 1.25, "
                                 "gate_bias_update_factor: 0.001, train_gate: false}\n")
                                .recipe.model.moe_overrides;
  EXPECT_EQ(read.aux_loss_coeff, 1e-3);
  EXPECT_TRUE(read.aux_loss_by_microbatch);
  EXPECT_EQ(read.z_loss_coeff, 0.5);
  EXPECT_EQ(read.capacity_factor, 1.25);
  EXPECT_EQ(read.gate_bias_update_factor, 0.001);
  EXPECT_FALSE(read.train_gate);
  EXPECT_THAT(mistakes_of(begin + "{aux_loss_coef: 1}\n"), HasSubstr("did you mean aux_loss_coeff"));
  EXPECT_THAT(mistakes_of(begin + "{capacity_factor: 0}\n"), HasSubstr("out of range"));
  EXPECT_THAT(mistakes_of(begin + "{aux_loss_scope: batch}\n"), HasSubstr("unknown value"));
  EXPECT_THAT(refusals_of(begin + "{score_func: sigmoid}\n"), Contains(HasSubstr("model.moe_overrides.score_func")));
}

TEST(ModelSection, TheFieldOfTheConfigurationAsksForTheBalanceLossToo) {
  const auto coefficient = [](const std::string& rest) {
    return with("model:\n  pretrained_model_name_or_path: m\n" + rest).recipe.model.moe_overrides.aux_loss_coeff;
  };
  EXPECT_EQ(coefficient("  router_aux_loss_coef: 0.02\n"), 0.02);
  EXPECT_EQ(coefficient("  config: {router_aux_loss_coef: 0.02}\n"), 0.02);
  EXPECT_EQ(coefficient("  router_aux_loss_coef: 0.02\n  moe_overrides: {aux_loss_coeff: 0.1}\n"), 0.1);
  EXPECT_EQ(coefficient(""), std::nullopt);
  EXPECT_THAT(mistakes_of("model:\n  pretrained_model_name_or_path: m\n  router_aux_loss_coef: much\n"), HasSubstr("router_aux_loss_coef"));
}

TEST(DistributedSection, StrategiesHaveTheirOwnKeys) {
  EXPECT_THAT(mistakes_of("distributed: {strategy: fsdp3}"), AllOf(HasSubstr("unknown value \"fsdp3\""), HasSubstr("did you mean fsdp2")));
  EXPECT_THAT(mistakes_of("distributed: {strategy: ddp, mp_policy: {}}"),
              AllOf(HasSubstr("distributed.mp_policy: is not a key of strategy ddp"), HasSubstr("it belongs to strategy fsdp2")));
  EXPECT_THAT(mistakes_of("distributed: {strategy: fsdp2, zero_dp_strategy: 1}"), HasSubstr("it belongs to strategy megatron_fsdp"));
  EXPECT_THAT(mistakes_of("distributed: {strategy: ddp, mp_polcy: {}}"), HasSubstr("distributed.mp_polcy: unknown key"));
  EXPECT_EQ(with("distributed: {strategy: megatron-fsdp, zero_dp_strategy: 0}").recipe.distributed.megatron_fsdp.zero_dp_strategy, 0);
  EXPECT_THAT(mistakes_of("distributed: {strategy: mfsdp, zero_dp_strategy: 4}"), HasSubstr("between 0 and 3"));
  EXPECT_EQ(with("distributed: {_target_: nemo_automodel.components.distributed.ddp.DDPManager, bucket_cap_mb: 25}").recipe.distributed.strategy,
            Strategy::Ddp);
}

TEST(DistributedSection, SizesAreCounts) {
  EXPECT_THAT(mistakes_of("distributed: {tp_size: 0}"), HasSubstr("between 1 and 32768"));
  EXPECT_THAT(mistakes_of("distributed: {dp_size: 100000000000000}"), HasSubstr("between 1 and 32768"));
  EXPECT_THAT(mistakes_of("distributed: {strategy: ddp, dp_replicate_size: x}"), HasSubstr("not a whole number"));
  EXPECT_THAT(mistakes_of("distributed: {activation_checkpointing: partly}"), HasSubstr("unknown value"));
  EXPECT_EQ(with("distributed: {dp_size: 8, dp_replicate_size: 2}").recipe.distributed.sizes.dp_size, 8);
  EXPECT_EQ(with("distributed: {dp_size: none, dp_replicate_size: null}").recipe.distributed.sizes.dp_size, std::nullopt);
}

TEST(DistributedSection, EveryAxisIsSupported) {
  EXPECT_THAT(refusals_of("distributed: {dp_size: none, tp_size: 2, cp_size: 2, pp_size: 2, ep_size: 2}"), IsEmpty());
  EXPECT_THAT(with("distributed: {pipeline: {pp_schedule: dualpipev}, moe: {}}").notes,
              AllOf(Contains("distributed.pipeline: ignored while pp_size is 1"), Contains("distributed.moe: ignored while ep_size is 1")));
}

TEST(DistributedSection, DataParallelismIsSupported) {
  for (const char* section :
       {"{dp_size: 8, dp_replicate_size: 2}", "{strategy: ddp, dp_size: 8}", "{strategy: megatron_fsdp, dp_size: 8, zero_dp_strategy: 1}"})
    EXPECT_THAT(refusals_of(std::string("distributed: ") + section), IsEmpty()) << section;
}

/// State is in host memory as it is.
TEST(DistributedSection, OffloadingIsAcceptedAndSaid) {
  EXPECT_THAT(with("distributed: {offload_policy: {_target_: torch.distributed.fsdp.CPUOffloadPolicy, pin_memory: true}}").notes,
              Contains("distributed.offload_policy: has no effect: weights, gradients and optimizer state are always kept in host memory"));
  EXPECT_THAT(with("distributed: {offload_policy: {_target_: torch.distributed.fsdp.OffloadPolicy}}").notes, IsEmpty());
  EXPECT_THAT(mistakes_of("distributed: {offload_policy: {pinned: true}}"), HasSubstr("unknown key"));
}

TEST(DistributedSection, ActivationCheckpointingSpellings) {
  EXPECT_EQ(with("distributed: {activation_checkpointing: true}").recipe.distributed.activation_checkpointing, ActivationCheckpointing::Full);
  EXPECT_EQ(with("distributed: {activation_checkpointing: full}").recipe.distributed.activation_checkpointing, ActivationCheckpointing::Full);
  EXPECT_EQ(with("distributed: {activation_checkpointing: none}").recipe.distributed.activation_checkpointing, ActivationCheckpointing::None);
}

TEST(DatasetSection, KindsHaveTheirOwnKeys) {
  EXPECT_THAT(mistakes_of("dataset: {_target_: mock, column_mapping: {}}"), HasSubstr("dataset.column_mapping: unknown key"));
  EXPECT_THAT(mistakes_of("dataset: {_target_: instruction}"),
              AllOf(HasSubstr("path_or_dataset_id is missing"), HasSubstr("column_mapping is missing")));
  EXPECT_THAT(mistakes_of("dataset: {_target_: instruction, path_or_dataset_id: d, column_mapping: {qestion: q, answer: a}}"),
              HasSubstr("did you mean question?"));
  EXPECT_THAT(mistakes_of("dataset: {seq_len: 3}"), HasSubstr("has no _target_"));
  const Dataset mock = *with("dataset: {_target_: mock, seq_len: 128, vocab_size: 50}").recipe.dataset;
  EXPECT_EQ(mock.seq_length, 128);
  EXPECT_EQ(mock.num_samples, 1'000'000);
}

TEST(DatasetSection, PaddingAndTruncationSpellings) {
  const auto read = [](const std::string& keys) {
    return *with("dataset: {_target_: instruction, path_or_dataset_id: d, column_mapping: {answer: a}, " + keys + "}").recipe.dataset;
  };
  EXPECT_EQ(read("padding: false").padding, Padding::None);
  EXPECT_EQ(read("padding: max_length").padding, Padding::MaxLength);
  EXPECT_EQ(read("padding: true").padding, Padding::Longest);
  EXPECT_EQ(read("truncation: longest_first").truncation, Truncation::LongestFirst);
  EXPECT_EQ(read("truncation: do_not_truncate").truncation, Truncation::None);
}

TEST(CheckpointSection, FormatsAndSizes) {
  EXPECT_THAT(refusals_of("checkpoint: {model_save_format: torch_save}"), Contains(HasSubstr("torch_save")));
  EXPECT_THAT(refusals_of("checkpoint: {model_save_format: torch_save, enabled: false}"), IsEmpty());
  EXPECT_THAT(mistakes_of("checkpoint: {model_save_format: gguf}"), HasSubstr("one of safetensors, torch_save"));
  EXPECT_EQ(with("checkpoint: {max_shard_size: 500MB}").recipe.checkpoint.max_shard_size, 500'000'000U);
  EXPECT_EQ(with("checkpoint: {max_shard_size: 1.5GiB}").recipe.checkpoint.max_shard_size, 1'610'612'736U);
  EXPECT_THAT(mistakes_of("checkpoint: {max_shard_size: big}"), HasSubstr("is not a size"));
  EXPECT_EQ(with("checkpoint: {save_consolidated: false}").recipe.checkpoint.save_consolidated, SaveConsolidated::Off);
  EXPECT_EQ(with("checkpoint: {save_consolidated: true}").recipe.checkpoint.save_consolidated, SaveConsolidated::Every);
}

TEST(StepSchedulerSection, NullMeansAutoModelsNull) {
  const StepScheduler section = with("step_scheduler: {ckpt_every_steps: null, num_epochs: null, val_every_steps: none}").recipe.step_scheduler;
  EXPECT_EQ(section.ckpt_every_steps, std::nullopt);
  EXPECT_EQ(section.num_epochs, std::nullopt);
  EXPECT_EQ(with("step_scheduler: {max_steps: 5}").recipe.step_scheduler.num_epochs, 10);
  EXPECT_EQ(with("clip_grad_norm: {max_norm: null}").recipe.clip_grad_norm.max_norm, std::nullopt);
}

TEST(DistEnvSection, Backends) {
  EXPECT_THAT(with("dist_env: {backend: nccl}").notes, Contains(HasSubstr("dist_env.backend: has no effect")));
  EXPECT_THAT(mistakes_of("dist_env: {backend: smoke}"), HasSubstr("unknown value"));
  EXPECT_THAT(mistakes_of("dist_env: {timeout_minutes: 0}"), HasSubstr("greater than 0"));
}

TEST(Dataloader, ThreadsAreBounded) {
  EXPECT_THAT(mistakes_of("dataloader: {num_workers: 20000}"), HasSubstr("dataloader.num_workers: 20000 is out of range"));
}

TEST(Sections, PatternsAreRegularExpressions) {
  EXPECT_THAT(mistakes_of("freeze_config:\n  patterns: [norm, \"(\"]"),
              AllOf(HasSubstr("r.yaml:2: freeze_config.patterns.1: \"(\" is not a regular expression"), HasSubstr("fix:")));
  EXPECT_THAT(mistakes_of("freeze_config: {patterns: \"[\"}"), HasSubstr("r.yaml:1: freeze_config.patterns: \"[\" is not"));
  EXPECT_THAT(
      mistakes_of("optimizer: {param_group_overrides: [{pattern: \"(\"}]}"),
      AllOf(HasSubstr("r.yaml:1: optimizer.param_group_overrides.0.pattern: \"(\" is not a regular expression"), Not(HasSubstr("has no pattern"))));
  EXPECT_THAT(mistakes_of("freeze_config: {patterns: [" + std::string(1001, 'a') + "]}"), HasSubstr("a regular expression of 1001 characters"));
}

/// Nothing that a recipe says is passed over in silence.
TEST(Sections, KeysWithoutEffectAreNoted) {
  const std::string model = "model:\n  pretrained_model_name_or_path: m\n  ";
  const std::string conversation = "dataset: {_target_: chat, path_or_dataset_id: d, start_of_turn_token: x}";
  for (const auto& [lines, key] : std::vector<std::pair<std::string, std::string>>{
           {"logging: {level: debug}", "logging.level"},
           {"sdpa_method: [flash_attention]", "sdpa_method"},
           {"mtp: {ignore_index: -100}", "mtp"},
           {"mtp: {scaling_factor: 0}", "mtp"},
           {"step_scheduler: {loss_average_window_steps: 5}", "step_scheduler.loss_average_window_steps"},
           {"dataloader: {prefetch_factor: 2}", "dataloader.prefetch_factor"},
           {"dataloader: {shuffle_buffer_size: 2}", "dataloader.shuffle_buffer_size"},
           {"validation_dataloader: {drop_last: true}", "validation_dataloader.drop_last"},
           {conversation, "dataset.start_of_turn_token"},
           {"checkpoint: {skip_task_head_prefixes_for_base_model: [score.]}", "checkpoint.skip_task_head_prefixes_for_base_model"},
           {"checkpoint: {staging_dir: /tmp/x}", "checkpoint.staging_dir"},
           {model + "mtp_loss_scaling_factor: 0.1", "model"},
           {model + "num_nextn_predict_layers: 2", "model"},
           {"loss_fn: {_target_: masked, fp32_upcast: false}", "loss_fn.fp32_upcast"},
           {"distributed: {mp_policy: {output_dtype: bf16}}", "distributed.mp_policy.output_dtype"},
           {"distributed: {strategy: megatron_fsdp, preserve_fp32_weights: false}", "distributed.preserve_fp32_weights"},
           {"distributed: {strategy: megatron_fsdp, check_for_nan_in_grad: false}", "distributed.check_for_nan_in_grad"},
           {"distributed: {strategy: megatron_fsdp, calculate_per_token_loss: false}", "distributed.calculate_per_token_loss"}}) {
    EXPECT_THAT(with(lines).notes, ElementsAre(StartsWith(key + ": "))) << lines;
  }
  EXPECT_THAT(with(model + "mtp_loss_scaling_factor: 0.1\n  num_nextn_predict_layers: 2\n").notes, SizeIs(1));
}

TEST(Sections, LayersThatPredictFurtherTokensAreRefused) {
  EXPECT_THAT(refusals_of("mtp: {scaling_factor: 0.1}"), ElementsAre("mtp.scaling_factor: 0.1 is not supported"));
  EXPECT_THAT(mistakes_of("mtp: {scaling_factor: much}"), HasSubstr("mtp.scaling_factor: \"much\" is not a number"));
  EXPECT_THAT(with("mtp: null").notes, IsEmpty());
}

TEST(Sections, WhatHappensAnywayIsNotNoted) {
  for (const char* lines :
       {"loss_fn: {_target_: masked, fp32_upcast: true}", "distributed: {mp_policy: {output_dtype: float32}}",
        "validation_dataloader: {drop_last: false}",
        "distributed: {strategy: megatron_fsdp, preserve_fp32_weights: true, check_for_nan_in_grad: true, calculate_per_token_loss: true}",
        "checkpoint: {skip_task_head_prefixes_for_base_model: []}", "model: {pretrained_model_name_or_path: m, num_nextn_predict_layers: 0}"})
    EXPECT_THAT(with(lines).notes, IsEmpty()) << lines;
  EXPECT_THAT(mistakes_of("distributed: {mp_policy: {output_dtype: bf61}}"), HasSubstr("not a dtype"));
}

TEST(CheckpointSection, AnEmptyDirectoryIsNotTheDefault) {
  EXPECT_THAT(mistakes_of("checkpoint: {checkpoint_dir: \"\"}"), HasSubstr("checkpoint.checkpoint_dir: is empty"));
  EXPECT_EQ(with("checkpoint: {checkpoint_dir: null}").recipe.checkpoint.checkpoint_dir, "checkpoints/");
}

TEST(CheckpointSection, TheBestMetricIsOneOfTheValidationSets) {
  const std::string two = "validation_dataset_easy: {_target_: mock}\nvalidation_dataset_hard: {_target_: mock}\n";
  EXPECT_THAT(mistakes_of(two + "checkpoint: {best_metric_key: haard}"),
              AllOf(HasSubstr("r.yaml:3: checkpoint.best_metric_key: unknown validation set \"haard\""), HasSubstr("easy, hard"),
                    HasSubstr("did you mean hard?")));
  EXPECT_THAT(with(two + "checkpoint: {best_metric_key: hard}").notes, IsEmpty());
  EXPECT_THAT(with(two).notes, ElementsAre(HasSubstr("checkpoint.best_metric_key: LOWEST_VAL is not kept")));
  EXPECT_THAT(with("validation_dataset_easy: {_target_: mock}").notes, IsEmpty()) << "the only one is what is meant";
  EXPECT_THAT(with("checkpoint: {best_metric_key: x}").notes, ElementsAre(HasSubstr("no validation_dataset")));
}

TEST(StepScheduler, CheckpointsThatAreSeldomValidatedAreNoted) {
  const auto notes = [](const std::string& scheduler, const std::string& more = "") {
    return with("validation_dataset: {_target_: mock}\nstep_scheduler: {" + scheduler + "}\n" + more).notes;
  };
  EXPECT_THAT(notes("ckpt_every_steps: 10, val_every_steps: 6"),
              ElementsAre(AllOf(HasSubstr("step_scheduler: validations and checkpoints meet every 30 steps"), HasSubstr("LOWEST_VAL"))));
  EXPECT_THAT(notes("ckpt_every_steps: 10, save_checkpoint_every_epoch: false"), ElementsAre(HasSubstr("on a multiple of ckpt_every_steps")));
  EXPECT_THAT(notes("ckpt_every_steps: null, val_every_steps: 6"), ElementsAre(HasSubstr("on a multiple of val_every_steps")));
  for (const char* scheduler :
       {"ckpt_every_steps: 10, val_every_steps: 5", "ckpt_every_steps: 5, val_every_steps: 10", "ckpt_every_steps: 10", "ckpt_every_steps: null"})
    EXPECT_THAT(notes(scheduler), IsEmpty()) << scheduler;
  EXPECT_THAT(notes("ckpt_every_steps: 10, val_every_steps: 6", "checkpoint: {enabled: false}"), IsEmpty());
}

/// A mistake that does not say what to do is half a message.
TEST(Sections, EveryMistakeHasAFix) {
  for (const char* lines : {"seed: -1",
                            "seed: x",
                            "step_scheduler: {max_steps: 0}",
                            "step_scheduler: 3",
                            "step_scheduler: {save_checkpoint_every_epoch: 5}",
                            "optimizer: {lr: .inf}",
                            "optimizer: {betas: 3}",
                            "optimizer: {lr: fast}",
                            "optimizer: {zzzzzzzzzzzz: 1}",
                            "optimizer: {param_group_overrides: [{}]}",
                            "optimizer: {param_group_overrides: 3}",
                            "optimizer: {_target_: [a]}",
                            "optimizer: {eps: 0}",
                            "lr_scheduler: {start_wd: 0.2, end_wd: 0.1}",
                            "lr_scheduler: {lr_decay_style: zzzzzzzz}",
                            "dataset: {_target_: nanogpt}",
                            "dataset: {_target_: tulu3, split: \"train[5:1]\"}",
                            "dataset: {_target_: tulu3, split: \"train[\"}",
                            "dataset: {_target_: megatron, paths: [p], split: train}",
                            "dataset: {_target_: chat, path_or_dataset_id: [x, null]}",
                            "dataset: {_target_: chat, path_or_dataset_id: {a: b}}",
                            "distributed: {tp_size: 0}",
                            "distributed: {pipeline: {module_fqns_per_model_part: 3}}",
                            "model: {pretrained_model_name_or_path: m, router_aux_loss_coef: x}",
                            "peft: {dropout: x}",
                            "zzzzzzzzzzzzzzzz: 1"}) {
    const std::string message = mistakes_of(lines);
    EXPECT_FALSE(message.empty()) << lines;
    const auto count = [&](const std::string& word) {
      std::size_t found = 0;
      for (std::size_t at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) ++found;
      return found;
    };
    EXPECT_EQ(count("error: "), count("  fix:  ")) << message;
  }
  for (const char* lines : {"optimizer: {amsgrad: true}", "optimizer: {_target_: dion.Muon}", "clip_grad_norm: {norm_type: inf}",
                            "loss_fn: {_target_: masked, reduction: mean}", "peft: {dim: 8}", "step_scheduler: {preemption_signal: SIGHUP}"})
    EXPECT_THAT(with(lines).unsupported, Each(Field(&Problem::fix, Not(IsEmpty())))) << lines;
}

TEST(Sections, WrongShapesAreMistakesNotCrashes) {
  for (const char* section :
       {"step_scheduler", "model", "tokenizer", "distributed", "dataset", "validation_dataset", "dataloader", "packed_sequence", "optimizer",
        "lr_scheduler", "loss_fn", "clip_grad_norm", "checkpoint", "dist_env", "logging", "freeze_config", "peft", "moe_metrics", "rng"}) {
    for (const char* value : {"[1, 2]", "[]", "3"}) {
      const std::string lines = std::string(section) + ": " + value + "\n";
      try {
        with(lines);
        EXPECT_TRUE(std::string(section) == "tokenizer") << lines;  // a text is a path there
      } catch (const UserError& error) {
        EXPECT_THAT(std::string(error.what()), HasSubstr(section));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::config
