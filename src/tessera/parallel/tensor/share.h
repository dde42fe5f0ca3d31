#pragma once

#include <cstdint>

#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"
#include "tessera/parallel/tensor/plan.h"

/// What of a model one tensor-parallel rank has: arithmetic, without tensors.
///
/// Queries, keys, values, gate and up are cut by output rows (column-parallel), output and down by input columns (row-parallel), embedding and head
/// by tokens; whole heads always (Shoeybi et al. 2019, arXiv 1909.08053). With more ranks than key/value heads, consecutive ranks hold the same one.
namespace tessera::parallel {

struct TensorShare {
  std::int64_t size = 1;  ///< of the group; divides the attention heads and the intermediate size
  std::int64_t rank = 0;
  bool sequence_parallel = false;
  TensorPlan plan = {};
};

/// Tokens [first, first + count) of a vocabulary: ceil(V / size) per rank, the last ranks having fewer.
struct VocabularyRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
VocabularyRange vocabulary_range(std::int64_t vocab_size, const TensorShare& share);

/// Ranks that hold a share of the same key/value head's work: 1 where attention is not cut.
std::int64_t key_value_holders(const model::ModelSpec& whole, const TensorShare& share);

/// `whole` with this rank's numbers of heads.
model::ModelSpec tensor_parallel_spec(const model::ModelSpec& whole, const TensorShare& share);

/// The parameters of this rank: the same names, its shapes and boxes. Shapes are equal on all ranks; a vocabulary that does not divide is padded with
/// rows that no box fills. What the plan does not cut is on every rank; its gradient is a share (partial) where a rank sees a part of the tokens or
/// of the heads.
model::ParameterTable tensor_parallel_table(const model::ModelSpec& whole, const TensorShare& share);

}  // namespace tessera::parallel
