#pragma once

#include <ATen/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/config/sections/distributed.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/model/placement.h"

namespace tessera::parallel {

/// What of a unit's state is cut over the shard group. Each kind includes those before it.
enum class Sharding : std::uint8_t {
  None,       ///< every rank holds everything (ddp, ZeRO-0)
  Optimizer,  ///< masters and moments (ZeRO-1)
  Gradients,  ///< and reduced gradients (ZeRO-2)
  Weights,    ///< and compute weights, gathered unit by unit (ZeRO-3, fsdp2)
};

/// With `overlap_reduce`, at most this many reductions run during backward: each keeps a whole gradient in memory.
inline constexpr std::size_t kReductionsUnderWay = 2;

/// How data-parallel ranks share the work: everything the strategies of a recipe differ in.
struct DataParallelPolicy {
  Sharding sharding = Sharding::None;
  /// Gradients are reduced over the shard group after every microbatch; otherwise they add up whole until the last one. (Over replicas they are
  /// always reduced once a step.)
  bool reduce_every_microbatch = false;
  /// A pipeline says when a stage's units are gathered and freed, and when their gradients, which add up whole until then, are reduced.
  bool by_stage = false;
  /// Gathered weights are freed between forward and backward. The last unit's never are: its backward comes next. In a pipeline: a stage's weights
  /// are gathered for each pass; otherwise once for all passes of a step.
  bool reshard_after_forward = true;
  std::int64_t forward_prefetch_depth = 1;  ///< units gathered ahead; 0: gather when needed
  std::int64_t backward_prefetch_depth = 1;
  bool overlap_reduce = true;               ///< reductions run during backward; otherwise each is waited for
  std::optional<at::ScalarType> wire = {};  ///< dtype gradients travel in; absent: fp32
};

/// distributed.fsdp2's options; with experts over ep, what distributed.moe says of all units comes first, and weights stay gathered by default.
config::Fsdp2Options fsdp2_options(const config::Distributed& distributed);

/// The policy of a recipe's strategy. `compute` is the dtype of compute weights; `num_microbatches` of one optimizer step at a rank.
DataParallelPolicy data_parallel_policy(const config::Distributed& distributed, DType compute, std::int64_t num_microbatches);

/// The axes over which ranks hold other shards of the same state, and those over which they hold the same. For all but experts: shards over dp_shard
/// · cp, replicas over dp_replicate (for ddp, over both). For experts, of which ranks along ep have different ones, ep_shard takes the place of
/// dp_shard · cp.
struct ShardAxes {
  mesh::AxisSet shards, replicas;
};
ShardAxes shard_axes(const DataParallelPolicy& policy);
ShardAxes expert_shard_axes(const DataParallelPolicy& policy);

/// What of a model's state the policy puts on this rank.
model::Placement placement(const DataParallelPolicy& policy, const mesh::MeshContext& mesh);
/// The same of stacked experts; absent while all ranks have all experts, which then lie like the rest.
std::optional<model::Placement> expert_placement(const DataParallelPolicy& policy, const mesh::MeshContext& mesh);

/// Which parameters of a model that computes in `compute` stay in fp32: the head, where distributed.moe.lm_head_precision says so. Empty: none.
model::ParameterPredicate full_precision(const config::Distributed& distributed, DType compute);

/// "optimizer state and gradients sharded over 4, replicated over 2; gradients travel in bf16".
std::string describe(const DataParallelPolicy& policy, const model::Placement& placement);

}  // namespace tessera::parallel
