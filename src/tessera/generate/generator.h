#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/generate/sampling.h"
#include "tessera/generate/session.h"
#include "tessera/model/causal_lm.h"

namespace tessera::generate {

struct GenerationOptions {
  std::int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  std::vector<data::TokenId> stop;  ///< generation ends after any of these (it is part of the result)
};

struct Generation {
  std::vector<data::TokenId> ids;  ///< the new tokens
  bool stopped = false;            ///< by a stop token, not by the limit
  double prompt_seconds = 0.0;
  double decode_seconds = 0.0;  ///< of all tokens but the first, which the prompt's pass gives
};

/// Continues token sequences with one model. The prompt is run at once, then token by token over a key/value cache.
class Generator {
 public:
  /// `model` must outlive it.
  explicit Generator(const model::CausalLM& model);
  /// Over the ranks of a model, whose cache must have room: all make the same calls, and all get the tokens that the first chose.
  explicit Generator(const CachedModel& model);

  /// `told`, when given, is called with each token as it is chosen and returns false to end the generation. UserError for an empty prompt, a token
  /// outside the vocabulary, or more tokens than the model has positions.
  Generation generate(std::span<const data::TokenId> prompt, const GenerationOptions& options,
                      const std::function<bool(data::TokenId)>& told = nullptr) const;

 private:
  const model::ModelSpec& spec_;
  std::function<Session(std::int64_t capacity)> start_;
  std::function<data::TokenId(data::TokenId)> agree_;  ///< on one rank's choice; absent: there is one rank
};

}  // namespace tessera::generate
