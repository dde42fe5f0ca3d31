#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/ops/routed_rows.h"

/// Which tokens go to which ranks, and what those make of them: indices, without communication.
namespace tessera::parallel {

/// A choice that travels: the row of the message to its rank that holds the token, and the number of the expert there.
struct SentChoice {
  std::int64_t row = 0;
  std::int64_t expert = 0;
};

/// This rank's tokens by the ranks that hold their experts.
struct Departure {
  ops::RoutedRows rows;                        ///< the groups are ranks: a token has one place for each rank it goes to
  std::vector<std::int64_t> choices_per_rank;  ///< sums to Q
  std::vector<std::int64_t> number_Q;          ///< n · k + j of each choice, by rank, then token, then j
  std::vector<SentChoice> choice_Q;
};
/// `experts_NK`: int64, −1 where a choice was dropped. Rank r holds the r-th `experts_per_rank`.
Departure plan_departure(const at::Tensor& experts_NK, std::int64_t num_ranks, std::int64_t experts_per_rank);

/// What came, by the experts here. `choices`: of all ranks' messages one after another, choices_per_rank of them; rows_per_rank of tokens.
ops::RoutedRows plan_arrival(const std::vector<SentChoice>& choices, const std::vector<std::int64_t>& choices_per_rank,
                             const std::vector<std::int64_t>& rows_per_rank, std::int64_t num_experts);

}  // namespace tessera::parallel
