#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/model/seams.h"
#include "tessera/model/spec.h"

namespace tessera::generate {

/// Attention over everything seen so far in one sequence: each call appends its keys and values, then attends to all of them.
/// Memory: layers · capacity · key/value heads · (head_dim + value_dim) elements. Latent attention's keys and values are kept as heads have them.
class KeyValueCache : public model::Attention {
 public:
  /// Room for `capacity` tokens. Nothing is touched until it is used.
  KeyValueCache(const model::ModelSpec& spec, std::int64_t capacity, at::ScalarType dtype);

  ops::Variable operator()(ops::Tape& tape, std::size_t layer, const model::Inputs& inputs, const ops::Variable& query_BTHC,
                           const ops::Variable& key_BTKC, const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override;

  /// Tokens that every layer holds.
  std::int64_t length() const { return length_; }
  /// To be called after each forward pass of `tokens` tokens.
  void advance(std::int64_t tokens) { length_ += tokens; }
  /// Forgets all tokens past the first `length`.
  void truncate(std::int64_t length) { length_ = length; }

 private:
  struct Layer {
    at::Tensor key_BSKC, value_BSKC;  ///< views of [1, K, capacity, C] storage: a head's entries lie together
  };
  std::vector<Layer> layers_;
  std::int64_t length_ = 0;
};

}  // namespace tessera::generate
