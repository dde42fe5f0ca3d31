#pragma once

#include <cstdint>
#include <span>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::generate {

/// How the next token is chosen. The defaults are greedy: the largest logit, the lowest id among equals.
struct SamplingOptions {
  double temperature = 0.0;         ///< 0: greedy; otherwise logits are divided by it
  std::int64_t top_k = 0;           ///< keep the k largest; 0: all
  double top_p = 1.0;               ///< keep the fewest largest whose probabilities reach p (nucleus, Holtzman et al. 2020)
  double repetition_penalty = 1.0;  ///< logits of tokens seen before are divided (positive) or multiplied (negative) by it (Keskar et al. 2019)
  std::uint64_t seed = 0;           ///< the choice at a position is a function of (seed, position, logits)
};

/// UserError for values outside their range.
void check(const SamplingOptions& options);

/// The next token after `previous`, from `logits` [V] (changed in place).
data::TokenId choose_token(std::span<float> logits, std::span<const data::TokenId> previous, const SamplingOptions& options);

}  // namespace tessera::generate
