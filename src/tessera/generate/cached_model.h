#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tessera/generate/key_value_cache.h"
#include "tessera/parallel/causal_lm.h"

namespace tessera::generate {

/// A model over the ranks of a setup that is only run. UserError when it cannot be split so. Every rank calls it; the setup must outlive the model.
parallel::CausalLM load_over_ranks(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, model::CausalLMOptions options);

/// A model over the ranks of a setup that keeps the keys and values of one text: each rank those of its layers and heads.
struct CachedModel {
  parallel::CausalLM model;
  KeyValueCache* cache = nullptr;  ///< owned by the model's decoder
  std::int64_t capacity = 0;       ///< tokens that it has room for

  /// load_over_ranks with a cache; `dtype` absent: the checkpoint's. UserError too when the setup cuts sequences (cp_size).
  static CachedModel from_pretrained(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, std::optional<DType> dtype,
                                     std::int64_t capacity);
};

}  // namespace tessera::generate
