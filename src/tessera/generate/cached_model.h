#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tessera/generate/key_value_cache.h"
#include "tessera/parallel/causal_lm.h"

namespace tessera::generate {

/// A model over the ranks of a setup that keeps the keys and values of one text: each rank those of its layers and heads.
struct CachedModel {
  parallel::CausalLM model;
  KeyValueCache* cache = nullptr;  ///< owned by the model's decoder

  /// Room for `capacity` tokens; `dtype` absent: the checkpoint's. UserError when the model cannot be split so, or the setup cuts sequences
  /// (cp_size). Every rank calls it; the setup must outlive the model.
  static CachedModel from_pretrained(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, std::optional<DType> dtype,
                                     std::int64_t capacity);
};

}  // namespace tessera::generate
