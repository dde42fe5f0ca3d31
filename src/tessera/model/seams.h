#pragma once

#include <cstdint>
#include <memory>

#include "tessera/model/inputs.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

/// The places where the decoder calls out, so that it needs no knowledge of ranks or caches.

/// Attention of one layer: given this rank's queries, keys and values (rotated, [B, T, heads, C]), the output [B·T, H·C].
/// Local: flash attention over the same tokens. Generation: over a key/value cache. Context parallelism: over the ranks of cp.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual ops::Variable operator()(ops::Tape& tape, std::size_t layer, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                                   const ops::Variable& value_BTKC, const ops::AttentionOptions& options) = 0;
};

/// Attention over the tokens at hand.
std::unique_ptr<Attention> local_attention();

}  // namespace tessera::model
