#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/ops/tape.h"

/// How rows (tokens) reach the groups (experts, or ranks) that they choose, and come back.
namespace tessera::ops {

/// Pairs (row, group), numbered by row and within a row as it lists them, and the order in which they lie when sorted by group, in the order of their
/// numbers within each: P places. All indices are int64 on the CPU.
struct RoutedRows {
  std::vector<std::int64_t> rows_per_group;  ///< sums to P
  at::Tensor row_P;                          ///< of the pair at each place
  at::Tensor pair_P;                         ///< its number
  at::Tensor start_N1;                       ///< row n's pairs are those from start[n] to start[n + 1]
  at::Tensor place;                          ///< of each pair; −1: it goes nowhere

  std::int64_t num_rows() const { return start_N1.size(0) - 1; }
  std::int64_t num_places() const { return row_P.size(0); }
};

/// `group_of_pair`: of the pairs of all N rows one after another, num_pairs_of_row of each; pairs with a group outside [0, num_groups) go nowhere.
RoutedRows route_rows(const std::vector<std::int64_t>& group_of_pair, const std::vector<std::int64_t>& num_pairs_of_row, std::int64_t num_groups);
/// Every row has k pairs: group_NK, int64.
RoutedRows route_rows(const at::Tensor& group_NK, std::int64_t num_groups);

/// The rows at their places: [N, D] to [P, D]; the output is cheap to rebuild. Backward: each row's gradient is the sum over its places, made in fp32
/// and rounded once.
Variable rows_to_places(Tape& tape, const Variable& input_ND, const RoutedRows& routed);

/// Back again, [P, D] to [N, D]: each row is the sum over its places, times the weight of each pair when there is one; made in fp32 (fp64 for fp64)
/// and rounded once. Rows without places are zero. `weights`, if not null: of every pair, fp32 (fp64 for fp64 rows), any shape; those of pairs that
/// go nowhere get a gradient of zero. Backward: weight · doutput at each place; weights by the scalar product of doutput and what came from their
/// place.
Variable rows_from_places(Tape& tape, const Variable& input_PD, const Variable* weights, const RoutedRows& routed);

}  // namespace tessera::ops
