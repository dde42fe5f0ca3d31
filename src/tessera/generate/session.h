#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/generate/key_value_cache.h"
#include "tessera/model/causal_lm.h"

namespace tessera::generate {

/// One text that grows token by token: a decoder over the model's weights with a key/value cache of its own.
class Session {
 public:
  /// Room for `capacity` tokens. `model` must outlive it.
  Session(const model::CausalLM& model, std::int64_t capacity);

  /// Logits [1, V] in fp32 after the whole text `ids`, which continues the text of the last call; only what is new is run. Where the rotary angles
  /// depend on the text's length (longrope) and change, everything is run again: the cached keys would be turned wrongly.
  at::Tensor advance(std::span<const data::TokenId> ids);

  /// Tokens whose keys and values are held.
  std::int64_t length() const { return cache_->length(); }

 private:
  KeyValueCache* cache_;  // owned by the decoder
  model::Decoder decoder_;

  Session(const model::CausalLM& model, std::unique_ptr<KeyValueCache> cache);
};

}  // namespace tessera::generate
