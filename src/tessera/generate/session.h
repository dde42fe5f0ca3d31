#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/generate/cached_model.h"
#include "tessera/generate/key_value_cache.h"
#include "tessera/model/causal_lm.h"

namespace tessera::generate {

/// One text that grows token by token, whose keys and values are kept.
class Session {
 public:
  /// A decoder of its own over the model's weights, with a cache of its own with room for `capacity` tokens. `model` must outlive it.
  Session(const model::CausalLM& model, std::int64_t capacity);
  /// Over the ranks of a model, all of which make the same calls with the same text. Forgets what the cache has; only one session at a time.
  explicit Session(const CachedModel& model);

  /// Logits [1, V] in fp32 after the whole text `ids`, which continues the text of the last call; only what is new is run. Where the rotary angles
  /// depend on the text's length (longrope) and change, everything is run again: the cached keys would be turned wrongly.
  at::Tensor advance(std::span<const data::TokenId> ids);

  /// Tokens whose keys and values are held.
  std::int64_t length() const { return cache_->length(); }

 private:
  /// Runs tokens that follow those in the cache: logits after the last, [1, V].
  using Run = std::function<at::Tensor(const model::Inputs& added)>;

  std::unique_ptr<model::Decoder> decoder_;  ///< of one process
  KeyValueCache* cache_;                     ///< owned by a decoder
  const model::ModelSpec& spec_;
  std::int64_t most_at_once_;  ///< tokens of one run
  Run run_;
};

}  // namespace tessera::generate
