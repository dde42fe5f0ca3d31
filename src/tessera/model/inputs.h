#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tessera::model {

/// Consecutive real tokens of one row.
struct TokenRun {
  std::int64_t position = 0;  ///< of its first token in the whole row
  std::int64_t length = 0;
  std::int64_t place = 0;     ///< of its first token among those at hand
  std::int64_t document = 0;  ///< which of the row's documents it belongs to
};
/// Which tokens of each row a rank has when rows are split along the sequence; places that no run fills are padding.
using TokenRuns = std::vector<std::vector<TokenRun>>;

/// What one forward pass takes: B rows of T tokens, padded on the right. Where context parallelism splits the rows, T and the matrices are this
/// rank's share, while lengths and document starts are those of the whole rows.
struct Inputs {
  at::Tensor input_ids_BT;                                 ///< int64
  at::Tensor position_ids_BT;                              ///< int64; restarts at every document
  std::vector<std::int64_t> lengths;                       ///< real tokens of each row (B entries)
  std::vector<std::int64_t> sample_numbers;                ///< B entries: dropout is a function of them, not of where a sample is computed
  std::vector<std::vector<std::int64_t>> document_starts;  ///< per row, ascending, first is 0; empty when every row is one document
  std::vector<TokenRuns> runs_of_ranks = {};               ///< of every rank of cp; empty when rows are whole
  std::int64_t context_rank = 0;                           ///< which of them this one is
  std::int64_t whole_length = 0;                           ///< T of the whole rows, where they are split

  std::int64_t num_rows() const { return input_ids_BT.size(0); }
  std::int64_t length() const { return input_ids_BT.size(1); }
};

}  // namespace tessera::model
