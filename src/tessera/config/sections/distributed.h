#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"

namespace tessera::config {

enum class Strategy : std::uint8_t { Fsdp2, MegatronFsdp, Ddp };
enum class ActivationCheckpointing : std::uint8_t { None, Full, Selective };
enum class CpAttention : std::uint8_t { Ring, AllGather, AllToAll };

/// Absent dtypes: the model's.
struct MixedPrecisionPolicy {
  std::optional<DType> param_dtype;   ///< that the model computes in; it is saved in model.torch_dtype (fp32 when it computes in that)
  std::optional<DType> reduce_dtype;  ///< on the wire; sums are fp32
};

/// Options of `strategy: fsdp2`.
struct Fsdp2Options {
  std::optional<MixedPrecisionPolicy> mp_policy;
  std::optional<DType> autocast_dtype;
  bool defer_fsdp_grad_sync = true;
  std::optional<bool> reshard_after_forward;  ///< absent: all but the last unit
  bool enable_fsdp2_prefetch = true;
  std::int64_t forward_prefetch_depth = 1;
  std::int64_t backward_prefetch_depth = 2;
};

/// Options of `strategy: megatron_fsdp`.
struct MegatronFsdpOptions {
  std::int64_t zero_dp_strategy = 3;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool grad_reduce_in_fp32 = false;
};

enum class PipelineSchedule : std::uint8_t { OneFOneB, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble, DualPipeV };
enum class StageRounding : std::uint8_t { None, Up, Down };

/// `distributed.pipeline`; only read when pp_size > 1.
struct Pipeline {
  PipelineSchedule pp_schedule = PipelineSchedule::OneFOneB;
  std::string pp_schedule_csv;  ///< path; replaces pp_schedule
  std::int64_t pp_microbatch_size = 1;
  std::optional<std::int64_t> layers_per_stage;
  StageRounding round_virtual_stages_to_pp_multiple = StageRounding::None;
  std::vector<std::vector<std::string>> module_fqns_per_model_part;
  bool scale_grads_in_schedule = false;
  std::optional<DType> dtype;
};

/// `distributed.moe`; only read when ep_size > 1.
struct MoeParallel {
  bool ignore_router_for_ac = true;
  bool reshard_after_forward = false;
  bool wrap_outer_model = true;
  std::optional<DType> lm_head_precision;
  std::optional<MixedPrecisionPolicy> mp_policy;
};

/// Ranks along each axis.
struct ParallelismSizes {
  std::optional<std::int64_t> dp_size = std::nullopt;  ///< absent: world_size / (tp_size · pp_size · cp_size)
  std::int64_t dp_replicate_size = 1;
  std::int64_t tp_size = 1;
  std::int64_t pp_size = 1;
  std::int64_t cp_size = 1;
  std::int64_t ep_size = 1;
};
/// What one axis may ask for: products of four of them fit in 64 bits.
inline constexpr std::int64_t kMostRanksAlongAnAxis = 32768;

/// `distributed`. The rules among its values are in parallelism.h.
struct Distributed {
  Strategy strategy = Strategy::Fsdp2;
  ParallelismSizes sizes = {};
  bool sequence_parallel = false;
  bool enable_async_tensor_parallel = false;
  std::map<std::string, std::string> tp_plan = {};  ///< name pattern -> style; empty: the family's own plan
  CpAttention cp_attention = CpAttention::Ring;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::None;
  bool offload_activations = false;
  Fsdp2Options fsdp2 = {};
  MegatronFsdpOptions megatron_fsdp = {};
  std::optional<Pipeline> pipeline = std::nullopt;
  std::optional<MoeParallel> moe = std::nullopt;
};

/// `dist_env`.
struct DistEnv {
  double timeout_minutes = 1.0;
};

}  // namespace tessera::config
