#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/config/recipe.h"
#include "tessera/core/error.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/train/objects.h"

namespace tessera::train {

/// A recipe on so many ranks, before any memory is taken.
struct Examination {
  std::vector<Problem> problems;        ///< everything that stands in the way of training
  std::optional<ModelPlan> plan;        ///< when the model can be read
  std::optional<mesh::MeshSizes> mesh;  ///< when the sizes keep the rules
};
Examination examine(const config::LoadedRecipe& recipe, const config::Environment& environment, std::int64_t world_size);

/// Microbatches of one optimizer step at a data-parallel rank.
std::int64_t num_microbatches(const config::StepScheduler& sizes, std::int64_t dp_size);

}  // namespace tessera::train
