#include "tessera/parallel/data/policy.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"

namespace tessera::parallel {
namespace {

/// bf16 models reduce in bf16 unless told otherwise; sums are fp32 either way.
std::optional<at::ScalarType> wire_of(std::optional<DType> asked, DType compute) {
  const DType wire = asked.value_or(compute == DType::BF16 ? DType::BF16 : DType::F32);
  if (wire == DType::F32 || wire == DType::F64) return std::nullopt;
  return model::scalar_type(wire);
}

DataParallelPolicy fsdp2_policy(const config::Distributed& distributed, DType compute, std::int64_t num_microbatches) {
  const config::Fsdp2Options options = fsdp2_options(distributed);
  const bool replicated = distributed.sizes.dp_replicate_size > 1, pipeline = distributed.sizes.pp_size > 1;
  const std::optional<DType> reduce = options.mp_policy ? options.mp_policy->reduce_dtype : std::nullopt;
  const bool prefetch = options.enable_fsdp2_prefetch;
  return {.sharding = Sharding::Weights,
          // With replicas only the exchange between them is put off, so that no rank keeps whole gradients.
          .reduce_every_microbatch = !pipeline && (replicated || !options.defer_fsdp_grad_sync || num_microbatches == 1),
          .by_stage = pipeline,
          .reshard_after_forward = options.reshard_after_forward.value_or(!pipeline),
          .forward_prefetch_depth = prefetch ? options.forward_prefetch_depth : 0,
          .backward_prefetch_depth = prefetch ? options.backward_prefetch_depth : 0,
          .overlap_reduce = true,
          .wire = wire_of(reduce, compute)};
}

DataParallelPolicy megatron_fsdp_policy(const config::MegatronFsdpOptions& options, DType compute) {
  static constexpr Sharding kStrategies[] = {Sharding::None, Sharding::Optimizer, Sharding::Gradients, Sharding::Weights};
  const Sharding sharding = kStrategies[options.zero_dp_strategy];
  const std::int64_t depth = options.overlap_param_gather ? 1 : 0;
  return {.sharding = sharding,
          .reduce_every_microbatch = sharding >= Sharding::Gradients,
          .reshard_after_forward = true,
          .forward_prefetch_depth = depth,
          .backward_prefetch_depth = depth,
          .overlap_reduce = options.overlap_grad_reduce,
          .wire = options.grad_reduce_in_fp32 ? std::nullopt : wire_of(std::nullopt, compute)};
}

model::Placement placed(const DataParallelPolicy& policy, const ShardAxes& axes, const mesh::MeshContext& mesh) {
  model::Placement place{.num_shards = mesh.size(axes.shards),
                         .shard = mesh.index(axes.shards),
                         .num_replicas = mesh.size(axes.replicas),
                         .replica = mesh.index(axes.replicas)};
  place.whole_weights = policy.sharding != Sharding::Weights || place.num_shards == 1;
  place.whole_gradients = policy.sharding < Sharding::Gradients || !policy.reduce_every_microbatch || place.num_shards == 1;
  return place;
}

}  // namespace

config::Fsdp2Options fsdp2_options(const config::Distributed& distributed) {
  config::Fsdp2Options options = distributed.fsdp2;
  if (distributed.sizes.ep_size == 1) return options;
  if (!distributed.moe) {
    options.reshard_after_forward = options.reshard_after_forward.value_or(false);
    return options;
  }
  options.reshard_after_forward = distributed.moe->reshard_after_forward;
  if (distributed.moe->mp_policy) options.mp_policy = distributed.moe->mp_policy;
  return options;
}

DataParallelPolicy data_parallel_policy(const config::Distributed& distributed, DType compute, std::int64_t num_microbatches) {
  switch (distributed.strategy) {
    case config::Strategy::Ddp:
      return {};
    case config::Strategy::Fsdp2:
      return fsdp2_policy(distributed, compute, num_microbatches);
    case config::Strategy::MegatronFsdp:
      return megatron_fsdp_policy(distributed.megatron_fsdp, compute);
  }
  TESSERA_ASSERT(false, "no such strategy");
}

ShardAxes shard_axes(const DataParallelPolicy& policy) {
  if (policy.sharding == Sharding::None) return {mesh::AxisSet(), mesh::kDpCp};
  return {mesh::kDpShardCp, mesh::Axis::DataReplicate};
}

ShardAxes expert_shard_axes(const DataParallelPolicy& policy) {
  if (policy.sharding == Sharding::None) return {mesh::AxisSet(), mesh::Axis::DataReplicate | mesh::Axis::ExpertShard};
  return {mesh::Axis::ExpertShard, mesh::Axis::DataReplicate};
}

model::Placement placement(const DataParallelPolicy& policy, const mesh::MeshContext& mesh) { return placed(policy, shard_axes(policy), mesh); }

std::optional<model::Placement> expert_placement(const DataParallelPolicy& policy, const mesh::MeshContext& mesh) {
  if (mesh.size(mesh::Axis::Expert) == 1) return std::nullopt;
  return placed(policy, expert_shard_axes(policy), mesh);
}

model::ParameterPredicate full_precision(const config::Distributed& distributed, DType compute) {
  const bool asked = distributed.sizes.ep_size > 1 && distributed.moe && distributed.moe->lm_head_precision == DType::F32;
  if (!asked || compute != DType::BF16) return {};
  return [](const model::ParameterSpec& parameter) { return parameter.role == model::Role::Head; };
}

std::string describe(const DataParallelPolicy& policy, const model::Placement& placement) {
  static constexpr const char* kWhat[] = {"nothing", "optimizer state", "optimizer state and gradients", "optimizer state, gradients and weights"};
  const char* const wire = !policy.wire ? "fp32" : *policy.wire == at::kHalf ? "fp16" : "bf16";
  return fmt::format("{} sharded over {}, replicated over {}; gradients travel in {}", kWhat[static_cast<int>(policy.sharding)], placement.num_shards,
                     placement.num_replicas, wire);
}

}  // namespace tessera::parallel
