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

/// Called around every unit (0: the embedding; 1 … L: blocks; L + 1: final norm and head, with the loss), so that a data-parallel engine can gather
/// weights before they are used, free them after, and reduce gradients when they are complete. In a forward pass the units come in ascending order;
/// where it is recorded, each unit's backward follows later, in the opposite order, and a block that runs again does so between its two calls.
/// With a tied head, unit L + 1 uses the embedding's weight too.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  /// The unit's weights are about to be read. `recorded`: a backward pass will follow.
  virtual void before_forward(std::int64_t unit, bool recorded) = 0;
  virtual void after_forward(std::int64_t unit, bool recorded) = 0;
  /// The unit's weights are about to be read again and its gradients written.
  virtual void before_backward(std::int64_t unit) = 0;
  /// This pass has written all its gradients (but for those on a WeightGradientQueue).
  virtual void after_backward(std::int64_t unit) = 0;
};

/// Calls the hooks around one unit of a forward pass, and records their calls around its backward. Null hooks: nothing.
class UnitScope {
 public:
  UnitScope(UnitHooks* hooks, ops::Tape& tape, std::int64_t unit);
  /// The unit's operators are done. Called once; not by the destructor, because an exception must not start communication.
  void leave();

 private:
  UnitHooks* hooks_;
  ops::Tape* tape_;
  std::int64_t unit_;
};

/// Attention over the tokens at hand.
std::unique_ptr<Attention> local_attention();

}  // namespace tessera::model
