// What each option of a strategy changes of the policy, and what of a model's state the policy then puts on every rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "tessera/config/recipe.h"
#include "tessera/parallel/data/policy.h"

namespace tessera::parallel {
namespace {

using config::Distributed;

const char* name_of(Sharding sharding) {
  static constexpr const char* kNames[] = {"nothing", "optimizer", "gradients", "weights"};
  return kNames[static_cast<int>(sharding)];
}

/// Every member, so that a row of the table says all of it.
std::string in_words(const DataParallelPolicy& policy) {
  return fmt::format("{} | {}{} | {} | ahead {} {} | {} | {}", name_of(policy.sharding), policy.reduce_every_microbatch ? "each" : "once",
                     policy.by_stage ? " by stage" : "", policy.reshard_after_forward ? "freed" : "kept", policy.forward_prefetch_depth,
                     policy.backward_prefetch_depth, policy.overlap_reduce ? "beside" : "waits", policy.wire ? at::toString(*policy.wire) : "fp32");
}

/// A recipe's section `distributed`.
Distributed section(const std::string& entries) {
  const std::string recipe = "distributed: {" + entries + "}\nmodel: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\n";
  return config::load_recipe(config::parse_yaml(recipe, "r.yaml"), [](std::string_view) { return std::optional<std::string>(); }).recipe.distributed;
}

struct Row {
  const char* entries;
  DType compute;
  std::int64_t num_microbatches;
  const char* policy;
};

constexpr DType kSingle = DType::F32, kHalf = DType::BF16;

constexpr Row kFsdp2[] = {
    {"", kSingle, 1, "weights | each | freed | ahead 1 2 | beside | fp32"},
    {"", kSingle, 3, "weights | once | freed | ahead 1 2 | beside | fp32"},
    {"defer_fsdp_grad_sync: false", kSingle, 3, "weights | each | freed | ahead 1 2 | beside | fp32"},
    {"dp_replicate_size: 2", kSingle, 3, "weights | each | freed | ahead 1 2 | beside | fp32"},
    {"dp_replicate_size: 2, defer_fsdp_grad_sync: false", kSingle, 3, "weights | each | freed | ahead 1 2 | beside | fp32"},
    {"pp_size: 2", kSingle, 1, "weights | once by stage | kept | ahead 1 2 | beside | fp32"},
    {"pp_size: 2, defer_fsdp_grad_sync: false", kSingle, 3, "weights | once by stage | kept | ahead 1 2 | beside | fp32"},
    {"pp_size: 2, dp_replicate_size: 2", kSingle, 3, "weights | once by stage | kept | ahead 1 2 | beside | fp32"},
    {"pp_size: 2, reshard_after_forward: true", kSingle, 3, "weights | once by stage | freed | ahead 1 2 | beside | fp32"},
    {"reshard_after_forward: false", kSingle, 1, "weights | each | kept | ahead 1 2 | beside | fp32"},
    {"fsdp2_forward_prefetch_depth: 3, fsdp2_backward_prefetch_depth: 5", kSingle, 1, "weights | each | freed | ahead 3 5 | beside | fp32"},
    {"enable_fsdp2_prefetch: false, fsdp2_forward_prefetch_depth: 3", kSingle, 1, "weights | each | freed | ahead 0 0 | beside | fp32"},
    {"", kHalf, 1, "weights | each | freed | ahead 1 2 | beside | BFloat16"},
    {"mp_policy: {reduce_dtype: float32}", kHalf, 1, "weights | each | freed | ahead 1 2 | beside | fp32"},
    {"mp_policy: {output_dtype: float32}", kHalf, 1, "weights | each | freed | ahead 1 2 | beside | BFloat16"},
    {"mp_policy: {reduce_dtype: bfloat16}", kSingle, 1, "weights | each | freed | ahead 1 2 | beside | BFloat16"},
    {"", DType::F64, 1, "weights | each | freed | ahead 1 2 | beside | fp32"},
};

/// Of all units of a model with experts over ep, what moe says comes first.
constexpr Row kExperts[] = {
    {"ep_size: 2", kHalf, 1, "weights | each | kept | ahead 1 2 | beside | BFloat16"},
    {"ep_size: 2, reshard_after_forward: true", kHalf, 1, "weights | each | freed | ahead 1 2 | beside | BFloat16"},
    {"ep_size: 2, reshard_after_forward: true, moe: {}", kHalf, 1, "weights | each | kept | ahead 1 2 | beside | BFloat16"},
    {"ep_size: 2, reshard_after_forward: false, moe: {reshard_after_forward: true}", kHalf, 1,
     "weights | each | freed | ahead 1 2 | beside | BFloat16"},
    {"ep_size: 2, mp_policy: {reduce_dtype: bf16}, moe: {mp_policy: {reduce_dtype: fp32}}", kHalf, 1,
     "weights | each | kept | ahead 1 2 | beside | fp32"},
    {"ep_size: 2, mp_policy: {reduce_dtype: fp32}, moe: {}", kHalf, 1, "weights | each | kept | ahead 1 2 | beside | fp32"},
    {"ep_size: 1, moe: {mp_policy: {reduce_dtype: fp32}}", kHalf, 1, "weights | each | freed | ahead 1 2 | beside | BFloat16"},
};

constexpr Row kOthers[] = {
    {"strategy: ddp", kSingle, 1, "nothing | once | freed | ahead 1 1 | beside | fp32"},
    {"strategy: ddp", kHalf, 3, "nothing | once | freed | ahead 1 1 | beside | fp32"},
    {"strategy: megatron_fsdp, zero_dp_strategy: 0", kSingle, 3, "nothing | once | freed | ahead 1 1 | beside | fp32"},
    {"strategy: megatron_fsdp, zero_dp_strategy: 1", kSingle, 3, "optimizer | once | freed | ahead 1 1 | beside | fp32"},
    {"strategy: megatron_fsdp, zero_dp_strategy: 2", kSingle, 3, "gradients | each | freed | ahead 1 1 | beside | fp32"},
    {"strategy: megatron_fsdp, zero_dp_strategy: 3", kSingle, 3, "weights | each | freed | ahead 1 1 | beside | fp32"},
    {"strategy: megatron_fsdp", kHalf, 1, "weights | each | freed | ahead 1 1 | beside | BFloat16"},
    {"strategy: megatron_fsdp, overlap_param_gather: false", kHalf, 1, "weights | each | freed | ahead 0 0 | beside | BFloat16"},
    {"strategy: megatron_fsdp, overlap_grad_reduce: false", kHalf, 1, "weights | each | freed | ahead 1 1 | waits | BFloat16"},
    {"strategy: megatron_fsdp, grad_reduce_in_fp32: true", kHalf, 1, "weights | each | freed | ahead 1 1 | beside | fp32"},
};

TEST(DataParallelPolicy, EveryOptionHasItsEffect) {
  for (const std::span<const Row> rows : {std::span<const Row>(kFsdp2), std::span<const Row>(kExperts), std::span<const Row>(kOthers)})
    for (const Row& row : rows)
      EXPECT_EQ(in_words(data_parallel_policy(section(row.entries), row.compute, row.num_microbatches)), row.policy) << row.entries;
}

/// Rank by rank as mesh_context.h numbers them: (((pp · R + r) · S + s) · C + c) · T + t, and ep_shard and ep in the place of s and c.
TEST(DataParallelPolicy, PlacesShardsAndReplicas) {
  constexpr std::int64_t kReplicas = 2, kShards = 3, kContext = 4, kTensor = 2, kExpert = 6, kExpertShards = 2;
  const mesh::MeshSizes sizes{.pp = 2, .dp_replicate = kReplicas, .dp_shard = kShards, .cp = kContext, .tp = kTensor, .ep = kExpert};
  for (const Sharding sharding : {Sharding::None, Sharding::Optimizer, Sharding::Gradients, Sharding::Weights}) {
    const bool whole = sharding == Sharding::None;
    for (std::int64_t rank = 0; rank < sizes.world_size(); ++rank) {
      SCOPED_TRACE(fmt::format("{}, rank {}", name_of(sharding), rank));
      const mesh::MeshContext mesh(sizes, rank);
      const std::int64_t shard = rank / kTensor % (kShards * kContext), replica = rank / (kTensor * kShards * kContext) % kReplicas;
      const model::Placement place = placement({.sharding = sharding}, mesh);
      EXPECT_EQ(place.num_shards, whole ? 1 : kShards * kContext);
      EXPECT_EQ(place.shard, whole ? 0 : shard);
      EXPECT_EQ(place.num_replicas, whole ? kReplicas * kShards * kContext : kReplicas);
      EXPECT_EQ(place.replica, whole ? replica * kShards * kContext + shard : replica);
      const model::Placement of_experts = expert_placement({.sharding = sharding}, mesh).value();
      EXPECT_EQ(of_experts.num_shards, whole ? 1 : kExpertShards);
      EXPECT_EQ(of_experts.shard, whole ? 0 : shard / kExpert);
      EXPECT_EQ(of_experts.num_replicas, whole ? kReplicas * kExpertShards : kReplicas);
      EXPECT_EQ(of_experts.replica, whole ? replica * kExpertShards + shard / kExpert : replica);
    }
  }
  EXPECT_FALSE(expert_placement({}, mesh::MeshContext({.dp_shard = 4}, 1)).has_value()) << "all ranks have all experts";
}

TEST(DataParallelPolicy, KeepsWholeWhatIsNotCut) {
  const auto kept = [](Sharding sharding, bool every_microbatch, const mesh::MeshSizes& sizes = {.dp_shard = 4}) {
    const model::Placement place = placement({.sharding = sharding, .reduce_every_microbatch = every_microbatch}, mesh::MeshContext(sizes, 0));
    return fmt::format("{} {}", place.whole_weights ? "weights" : "-", place.whole_gradients ? "gradients" : "-");
  };
  EXPECT_EQ(kept(Sharding::None, true), "weights gradients");
  EXPECT_EQ(kept(Sharding::Optimizer, true), "weights gradients");
  EXPECT_EQ(kept(Sharding::Gradients, true), "weights -");
  EXPECT_EQ(kept(Sharding::Gradients, false), "weights gradients");
  EXPECT_EQ(kept(Sharding::Weights, true), "- -");
  EXPECT_EQ(kept(Sharding::Weights, false), "- gradients");
  EXPECT_EQ(kept(Sharding::Weights, true, {.dp_replicate = 4}), "weights gradients") << "one shard is everything";
}

TEST(DataParallelPolicy, TheHeadMayComputeInSinglePrecision) {
  const auto stays = [](const std::string& entries, DType compute, model::Role role) {
    const auto single = full_precision(section(entries), compute);
    model::ParameterSpec parameter;
    parameter.role = role;
    return single && single(parameter);
  };
  const std::string asked = "ep_size: 2, moe: {lm_head_precision: float32}";
  EXPECT_TRUE(stays(asked, kHalf, model::Role::Head));
  EXPECT_FALSE(stays(asked, kHalf, model::Role::Embedding));
  EXPECT_FALSE(stays(asked, kSingle, model::Role::Head)) << "it is in single precision as it is";
  EXPECT_FALSE(stays("moe: {lm_head_precision: float32}", kHalf, model::Role::Head)) << "moe is ignored while ep_size is 1";
  EXPECT_FALSE(stays("ep_size: 2, moe: {lm_head_precision: bfloat16}", kHalf, model::Role::Head));
  EXPECT_FALSE(stays("ep_size: 2", kHalf, model::Role::Head));
}

TEST(DataParallelPolicy, IsSaidInWords) {
  EXPECT_EQ(describe({.sharding = Sharding::Gradients, .wire = at::kBFloat16}, {.num_shards = 4, .num_replicas = 2}),
            "optimizer state and gradients sharded over 4, replicated over 2; gradients travel in bf16");
  EXPECT_EQ(describe({}, {.num_replicas = 8}), "nothing sharded over 1, replicated over 8; gradients travel in fp32");
}

}  // namespace
}  // namespace tessera::parallel
