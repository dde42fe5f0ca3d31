#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// The choices of N tokens among experts, sorted: by expert, and of one expert by token. R rows, one for each choice that was not dropped.
struct ExpertOrder {
  at::Tensor tokens_R;                        ///< int64: the token of each row
  at::Tensor rows_NK;                         ///< int64: the row of each choice; −1 where it was dropped
  std::vector<std::int64_t> rows_per_expert;  ///< num_experts entries, which sum to R
};
/// experts_NK: int64, an expert's number or −1 (dropped).
ExpertOrder sort_by_expert(const at::Tensor& experts_NK, std::int64_t num_experts);

/// The token of each row: [N, D] to [R, D]. Backward: a token's gradient is the sum of its rows', added up in fp32 (fp64).
Variable gather_tokens(Tape& tape, const Variable& tokens_ND, const ExpertOrder& order);

/// sum over k of weights_NK · the choice's row, [N, D] in the dtype of the rows [R, D], added up in fp32 (fp64), the dtype of the weights. Backward:
/// a row's gradient is its weight · the token's; a weight's is its row · the token's gradient. Choices that were dropped have no part.
Variable combine_experts(Tape& tape, const Variable& rows_RD, const ExpertOrder& order, const Variable& weights_NK);

}  // namespace tessera::ops
