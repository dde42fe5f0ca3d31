#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/config/recipe.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/model/summary.h"
#include "tessera/parallel/pipeline_plan.h"

namespace tessera::train {

/// The memory of a rank of a recipe's run, with microbatches of `num_rows` rows of `length` tokens: from the sharding policy that the run would use,
/// before any of it is taken. What sequence parallelism saves of activations is not counted. One estimate for each rank of `pipeline`, by the passes
/// that its schedule leaves waiting; one for all ranks without a pipeline.
std::vector<model::MemoryEstimate> memory_plan(const config::Recipe& recipe, const model::ModelSpec& spec, DType compute, const mesh::MeshSizes& mesh,
                                               std::int64_t num_rows, std::int64_t length,
                                               const std::optional<parallel::PipelinePlan>& pipeline = std::nullopt);

}  // namespace tessera::train
