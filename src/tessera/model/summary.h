#pragma once

#include <cstdint>

#include "tessera/core/dtype.h"
#include "tessera/model/decoder.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"

/// Sizes and costs of a model as plain numbers, computed without a tensor.
namespace tessera::model {

/// Floating-point operations of one token's forward and backward pass: 6 × the elements of every matrix it is multiplied by (the head included, tied
/// or not; embedding lookups not; of stacked experts its own k of E) + 6 × heads × (head_dim + value_dim) × positions seen on average, over all
/// layers (PaLM, arXiv 2204.02311, appendix B; causal, so half the length without a sliding window).
double flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

/// Over how many data-parallel ranks each part of the training state is sharded; 1: every rank has all of it.
struct StateSharding {
  std::int64_t weights = 1;
  std::int64_t gradients = 1;
  std::int64_t optimizer = 1;  ///< moments, and fp32 masters of weights that are computed in another dtype
};

struct MemoryRequest {
  DType compute_dtype = DType::F32;
  bool training = true;        ///< false: weights in the compute dtype, and the activations of one block
  std::int64_t num_rows = 1;   ///< of one microbatch
  std::int64_t length = 1024;  ///< tokens of a row
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::None;
  bool bfloat16_gemm = true;             ///< ops::has_bfloat16_gemm; without it bf16 products make fp32 copies
  std::int64_t trainable_elements = -1;  ///< −1: all
  StateSharding sharding = {};
};

/// Bytes in one process (rank), at the most; train/memory_plan.h fills all of it. Shards are counted as equal; the largest is larger by less than a
/// row of each parameter.
struct MemoryEstimate {
  std::int64_t weights = 0;  ///< compute weights, and masters where they are other tensors
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;    ///< both Adam moments
  std::int64_t gathered = 0;     ///< whole units in addition to the shards, while the data-parallel engine works on them; 0 in one process
  std::int64_t messages = 0;     ///< between ranks; 0 in one process
  std::int64_t activations = 0;  ///< what forward keeps for backward, and the largest temporaries at the same time (activation_memory.h)
  std::int64_t staging = 0;      ///< the copy that a save in the background writes from; 0 where saving makes training wait

  std::int64_t total() const { return weights + gradients + optimizer + gathered + messages + activations + staging; }
};
/// Weights, gradients and moments of a rank that has `elements`, before they are sharded; no activations.
MemoryEstimate estimate_state(std::int64_t elements, const MemoryRequest& request);

}  // namespace tessera::model
