#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/config/recipe.h"
#include "tessera/core/error.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/parallel/pipeline_plan.h"
#include "tessera/train/model_plan.h"

namespace tessera::train {

/// A recipe on so many ranks, before any memory is taken.
struct Examination {
  std::vector<Problem> problems;                   ///< everything that stands in the way of training, the recipe's own mistakes first
  std::optional<ModelPlan> plan;                   ///< when the model can be read; this and what follows only of a recipe without mistakes
  std::optional<mesh::MeshSizes> mesh;             ///< when the sizes keep the rules
  std::optional<parallel::PipelinePlan> pipeline;  ///< when there is one, and it keeps the rules
};
/// In its problems, what environment variables put into the recipe is shown as it is written there. Only rank 0 looks for checkpoints: it keeps their
/// directory, and what it cannot begin from no other can.
Examination examine(const config::LoadedRecipe& recipe, const Environment& environment, std::int64_t world_size, std::int64_t rank = 0);

/// Rows of a microbatch where a data-parallel rank takes `local_batch_size` of them at a time: all of them; in a pipeline pp_microbatch_size, if that
/// divides them.
std::int64_t microbatch_rows(const config::Distributed& distributed, std::int64_t local_batch_size);
/// Microbatches of one optimizer step at a data-parallel rank.
std::int64_t num_microbatches(const config::Recipe& recipe, std::int64_t dp_size);

}  // namespace tessera::train
