#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tessera::model {

/// What one forward pass takes: B rows of T tokens, padded on the right.
struct Inputs {
  at::Tensor input_ids_BT;                                 ///< int64
  at::Tensor position_ids_BT;                              ///< int64; restarts at every document
  std::vector<std::int64_t> lengths;                       ///< real tokens of each row (B entries)
  std::vector<std::int64_t> sample_numbers;                ///< B entries: dropout is a function of them, not of where a sample is computed
  std::vector<std::vector<std::int64_t>> document_starts;  ///< per row, ascending, first is 0; empty when every row is one document

  std::int64_t num_rows() const { return input_ids_BT.size(0); }
  std::int64_t length() const { return input_ids_BT.size(1); }
};

}  // namespace tessera::model
