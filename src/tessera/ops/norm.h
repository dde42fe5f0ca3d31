#pragma once

#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// y = x / sqrt(mean(x²) + epsilon) · (weight + weight_offset) over the last dim (Zhang and Sennrich 2019). Input contiguous [N, D], weight [D].
/// Statistics in fp32, rounded to the input's dtype once. The output is cheap to rebuild, so consumers keep the input instead.
struct RmsNormOptions {
  double epsilon = 1e-6;
  double weight_offset = 0.0;
};
Variable rms_norm(Tape& tape, const Variable& input_ND, Parameter& weight, const RmsNormOptions& options);

/// y = (x − mean) / sqrt(variance + epsilon) · weight + bias over the last dim (Ba et al. 2016).
Variable layer_norm(Tape& tape, const Variable& input_ND, Parameter& weight, Parameter* bias, double epsilon);

/// RMSNorm of queries and keys inside a fused [N, (H + 2K)·C] projection; values are copied. With `per_head` each head is a vector and the weights
/// are [C] (qwen3); otherwise the whole projection is one vector and the weights are [H·C] and [K·C] (olmo2).
struct QueryKeyNormOptions {
  std::int64_t num_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  bool per_head = true;
  RmsNormOptions norm;
};
Variable query_key_norm(Tape& tape, const Variable& query_key_value, Parameter& query_weight, Parameter& key_weight,
                        const QueryKeyNormOptions& options);

}  // namespace tessera::ops
