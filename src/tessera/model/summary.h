#pragma once

#include <cstdint>

#include "tessera/core/dtype.h"
#include "tessera/model/decoder.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"

/// Sizes and costs of a model as plain numbers, computed without a tensor.
namespace tessera::model {

struct ParameterCount {
  std::int64_t total = 0;      ///< a tied head counts once
  std::int64_t embedding = 0;  ///< token and position embeddings
  std::int64_t blocks = 0;
  std::int64_t head = 0;  ///< an untied head; the final norm is in total alone
};
ParameterCount count_parameters(const ParameterTable& table);

/// Floating-point operations of one token's forward and backward pass: 6 × the elements of every matrix it is multiplied by (the head included, tied
/// or not; embedding lookups not) + 12 × heads × head_dim × positions seen on average, over all layers (PaLM, arXiv 2204.02311, appendix B; causal,
/// so half the length without a sliding window).
double flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

struct MemoryRequest {
  DType compute_dtype = DType::F32;
  bool training = true;        ///< false: weights in the compute dtype, and the activations of one block
  std::int64_t num_rows = 1;   ///< of one microbatch
  std::int64_t length = 1024;  ///< tokens of a row
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::None;
  bool bfloat16_gemm = true;             ///< ops::has_bfloat16_gemm; without it bf16 products make fp32 copies
  std::int64_t trainable_elements = -1;  ///< −1: all
};

/// Bytes in one process.
struct MemoryEstimate {
  std::int64_t weights = 0;  ///< compute weights, and masters where they are other tensors
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;    ///< both Adam moments
  std::int64_t activations = 0;  ///< what forward keeps for backward, and the largest temporaries beside it (activation_memory.h)

  std::int64_t total() const { return weights + gradients + optimizer + activations; }
};
MemoryEstimate estimate_memory(const ModelSpec& spec, const MemoryRequest& request);

}  // namespace tessera::model
