// Every key that a strategy of `distributed` has of its own, and what becomes of it under each strategy.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "support/support.h"
#include "tessera/config/recipe.h"
#include "tessera/core/error.h"

namespace tessera::config {
namespace {

using ::testing::HasSubstr;

LoadedRecipe with_distributed(const std::string& entries) {
  const std::string recipe = fmt::format("distributed: {{{}}}\nmodel: {{pretrained_model_name_or_path: m}}\ndataset: {{_target_: mock}}\n", entries);
  return load_recipe(parse_yaml(recipe, "r.yaml"), [](std::string_view) { return std::optional<std::string>(); });
}

/// "read": taken without a word; "noted": taken, has no effect, and that is said; "refused": not supported, by name; "mistake": the strategy has no
/// such key.
std::string outcome(const std::string& strategy, const std::string& key, const std::string& value) {
  const std::string path = "distributed." + key;
  try {
    const LoadedRecipe loaded = with_distributed(fmt::format("strategy: {}, {}: {}", strategy, key, value));
    if (std::ranges::any_of(loaded.unsupported, [&](const Problem& problem) { return problem.what.starts_with(path); })) return "refused";
    return std::ranges::any_of(loaded.notes, [&](const std::string& note) { return note.starts_with(path + ": "); }) ? "noted" : "read";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
    return "mistake";
  }
}

struct Row {
  const char* key;
  const char* value;
  const char* fsdp2;
  const char* megatron_fsdp;
  const char* ddp;
};

TEST(StrategyKeys, AreReadNotedRefusedOrMistakes) {
  const Row rows[] = {
      {"multimodal", "{freeze_vision: true}", "refused", "mistake", "mistake"},
      {"autocast_dtype", "bfloat16", "read", "mistake", "read"},
      {"activation_checkpointing_scope", "[all, language]", "read", "mistake", "read"},
      {"enable_async_tensor_parallel", "true", "read", "mistake", "mistake"},
      {"tp_plan", "{embed_tokens: rowwise}", "read", "read", "read"},
      {"mp_policy", "{reduce_dtype: float32}", "read", "mistake", "mistake"},
      {"offload_policy", "{_target_: torch.distributed.fsdp.CPUOffloadPolicy}", "noted", "mistake", "mistake"},
      {"defer_fsdp_grad_sync", "false", "read", "mistake", "mistake"},
      {"reshard_after_forward", "true", "read", "mistake", "mistake"},
      {"enable_fsdp2_prefetch", "true", "read", "mistake", "mistake"},
      {"fsdp2_forward_prefetch_depth", "3", "read", "mistake", "mistake"},
      {"fsdp2_backward_prefetch_depth", "3", "read", "mistake", "mistake"},
      {"patch_is_packed_sequence", "true", "read", "mistake", "mistake"},
      {"enable_compile", "true", "noted", "mistake", "mistake"},

      {"zero_dp_strategy", "2", "mistake", "read", "mistake"},
      {"overlap_grad_reduce", "false", "mistake", "read", "mistake"},
      {"overlap_param_gather", "false", "mistake", "read", "mistake"},
      {"grad_reduce_in_fp32", "true", "mistake", "read", "mistake"},
      {"preserve_fp32_weights", "true", "mistake", "read", "mistake"},
      {"check_for_nan_in_grad", "true", "mistake", "read", "mistake"},
      {"report_nan_in_param_grad", "true", "mistake", "read", "mistake"},
      {"calculate_per_token_loss", "true", "mistake", "read", "mistake"},
      {"average_in_collective", "true", "mistake", "noted", "mistake"},
      {"disable_bucketing", "true", "mistake", "noted", "mistake"},
      {"fsdp_double_buffer", "true", "mistake", "noted", "mistake"},
      {"megatron_fsdp_unit_modules", "[transformers.models.llama.LlamaDecoderLayer]", "mistake", "noted", "mistake"},
      {"nccl_ub", "true", "mistake", "noted", "mistake"},
      {"keep_fp8_transpose_cache", "true", "mistake", "noted", "mistake"},
      {"init_fsdp_with_meta_device", "true", "mistake", "noted", "mistake"},

      {"bucket_cap_mb", "25", "mistake", "mistake", "noted"},
      {"broadcast_buffers", "true", "mistake", "mistake", "read"},
      {"find_unused_parameters", "true", "mistake", "mistake", "read"},
      {"static_graph", "true", "mistake", "mistake", "read"},
      {"gradient_as_bucket_view", "true", "mistake", "mistake", "read"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(outcome("fsdp2", row.key, row.value), row.fsdp2) << row.key;
    EXPECT_EQ(outcome("megatron_fsdp", row.key, row.value), row.megatron_fsdp) << row.key;
    EXPECT_EQ(outcome("ddp", row.key, row.value), row.ddp) << row.key;
  }
}

TEST(StrategyKeys, WithoutEffectAreStillOfTheirType) {
  const auto mistake = [](const std::string& entries) { return test::error_of([&] { with_distributed(entries); }); };
  for (const char* const entries : {"strategy: fsdp2, enable_compile: sometimes", "strategy: megatron_fsdp, nccl_ub: sometimes",
                                    "strategy: megatron_fsdp, check_for_nan_in_grad: sometimes", "strategy: ddp, static_graph: sometimes"})
    EXPECT_THAT(mistake(entries), HasSubstr("\"sometimes\" is not true or false"));
  EXPECT_THAT(mistake("strategy: ddp, bucket_cap_mb: many"), HasSubstr("\"many\" is not a number"));
}

TEST(StrategyKeys, NothingAskedForIsNothingRefused) {
  EXPECT_EQ(outcome("fsdp2", "multimodal", "{}"), "read");
  EXPECT_EQ(outcome("fsdp2", "multimodal", "null"), "read");
  EXPECT_EQ(outcome("fsdp2", "activation_checkpointing_scope", "vision"), "refused");
}

TEST(StrategyKeys, EachSetsItsOwnOption) {
  const Distributed fsdp2 = with_distributed(
                                "defer_fsdp_grad_sync: false, reshard_after_forward: false, enable_fsdp2_prefetch: false, "
                                "fsdp2_forward_prefetch_depth: 3, fsdp2_backward_prefetch_depth: 4, enable_async_tensor_parallel: true, "
                                "autocast_dtype: fp32, mp_policy: {param_dtype: bf16, reduce_dtype: fp32}, tp_plan: {lm_head: colwise_rep}, "
                                "sequence_parallel: true, tp_size: 2")
                                .recipe.distributed;
  EXPECT_FALSE(fsdp2.fsdp2.defer_fsdp_grad_sync);
  EXPECT_EQ(fsdp2.fsdp2.reshard_after_forward, false);
  EXPECT_FALSE(fsdp2.fsdp2.enable_fsdp2_prefetch);
  EXPECT_EQ(fsdp2.fsdp2.forward_prefetch_depth, 3);
  EXPECT_EQ(fsdp2.fsdp2.backward_prefetch_depth, 4);
  EXPECT_EQ(fsdp2.fsdp2.autocast_dtype, DType::F32);
  ASSERT_TRUE(fsdp2.fsdp2.mp_policy.has_value());
  EXPECT_EQ(fsdp2.fsdp2.mp_policy->param_dtype, DType::BF16);
  EXPECT_EQ(fsdp2.fsdp2.mp_policy->reduce_dtype, DType::F32);
  EXPECT_TRUE(fsdp2.enable_async_tensor_parallel);
  EXPECT_EQ(fsdp2.tp_plan, (std::map<std::string, std::string>{{"lm_head", "colwise_rep"}}));
  const MegatronFsdpOptions megatron = with_distributed(
                                           "strategy: megatron_fsdp, zero_dp_strategy: 1, overlap_grad_reduce: false, "
                                           "overlap_param_gather: false, grad_reduce_in_fp32: true")
                                           .recipe.distributed.megatron_fsdp;
  EXPECT_EQ(megatron.zero_dp_strategy, 1);
  EXPECT_FALSE(megatron.overlap_grad_reduce);
  EXPECT_FALSE(megatron.overlap_param_gather);
  EXPECT_TRUE(megatron.grad_reduce_in_fp32);
  const MoeParallel moe = *with_distributed(
                               "ep_size: 2, moe: {reshard_after_forward: true, ignore_router_for_ac: false, lm_head_precision: fp32, "
                               "mp_policy: {reduce_dtype: fp32}}")
                               .recipe.distributed.moe;
  EXPECT_TRUE(moe.reshard_after_forward);
  EXPECT_FALSE(moe.ignore_router_for_ac);
  EXPECT_EQ(moe.lm_head_precision, DType::F32);
  EXPECT_EQ(moe.mp_policy->reduce_dtype, DType::F32);
}

}  // namespace
}  // namespace tessera::config
