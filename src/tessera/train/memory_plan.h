#pragma once

#include <cstdint>

#include "tessera/config/recipe.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/model/summary.h"

namespace tessera::train {

/// The memory of one rank of a recipe's run, with microbatches of `num_rows` rows of `length` tokens: from the sharding policy that the run would
/// use, before any of it is taken.
model::MemoryEstimate memory_plan(const config::Recipe& recipe, const model::ModelSpec& spec, DType compute, const mesh::MeshSizes& mesh,
                                  std::int64_t num_rows, std::int64_t length);

}  // namespace tessera::train
