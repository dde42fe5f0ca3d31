#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// Which token of which sample.
struct TokenNumber {
  std::int64_t sample = 0;
  std::int64_t position = 0;  ///< in its row
};

/// Dropout of one place in one layer (see cpu/dropout.h): the mask of element d of a token depends on `key`, the sample's number and the token's
/// position, so it is the same however the batch is split.
struct Dropout {
  double probability = 0.0;
  std::uint64_t key = 0;                                        ///< of (seed, step, layer, purpose)
  std::shared_ptr<const std::vector<TokenNumber>> tokens = {};  ///< N entries, when something is dropped
};

/// residual + multiplier · dropout(branch), all [N, D]. The branch's buffer is reused for the result: nobody else may have saved it.
Variable residual_add(Tape& tape, const Variable& residual_ND, const Variable& branch_ND, double multiplier, const Dropout& dropout);
/// dropout(input), for embeddings; the input itself when nothing is dropped.
Variable dropout(Tape& tape, const Variable& input_ND, const Dropout& options);
/// a + b, both [N, D] (token and position embeddings).
Variable add(Tape& tape, const Variable& a_ND, const Variable& b_ND);

}  // namespace tessera::ops
