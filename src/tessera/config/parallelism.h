#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/config/sections/distributed.h"
#include "tessera/core/error.h"

/// Rules about splitting the work among ranks: arithmetic over `distributed`, for recipes and for programs that fill the struct themselves.
/// With one rank nothing is split, and every size must be 1.
namespace tessera::config {

/// Where a key stands, for messages: "distributed.tp_size" -> "recipe.yaml:14". Empty: nowhere.
using Locate = std::function<std::string(std::string_view dotted_path)>;

/// Data-parallel ranks: world_size / (tp · pp · cp); nothing when that is not a whole number.
std::optional<std::int64_t> data_parallel_size(const ParallelismSizes& sizes, std::int64_t world_size);

/// Adds every violation: sizes that do not multiply to `world_size`, sizes and options that the strategy does not know, experts that do not divide.
void validate_parallelism(const Distributed& distributed, std::int64_t world_size, const Locate& locate, ProblemList& problems);

/// What of a model tensor, context and expert parallelism cut.
struct ModelSizes {
  std::int64_t num_attention_heads = 1;
  std::int64_t num_key_value_heads = 1;
  std::int64_t intermediate_size = 1;  ///< of dense layers that are cut over tp; 0: there are none
  std::int64_t num_experts = 0;        ///< of a layer that has experts; 0: none has
  bool heads_are_cut = true;           ///< over tp
};
/// Adds every violation: tp ranks hold whole attention heads and equal parts of the feed-forward; key/value heads are cut too, or each is held by an
/// equal number of ranks. The ranks of cp exchange whole heads where attention asks for it. The ranks of ep hold equally many experts each.
void validate_model_split(const Distributed& distributed, const ModelSizes& model, const Locate& locate, ProblemList& problems);

}  // namespace tessera::config
