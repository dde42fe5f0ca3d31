#pragma once

#include "tessera/mesh/mesh_context.h"
#include "tessera/model/parameter_table.h"
#include "tessera/parallel/pipeline/stage_plan.h"
#include "tessera/parallel/tensor/share.h"

namespace tessera::parallel {

/// The parameters that one rank of a mesh has, whatever data parallelism then cuts of them: of its stages (`stages` null: all), its share of each
/// matrix, its experts. `tensor` says how tensor parallelism splits; its size and rank are the mesh's.
model::ParameterTable rank_table(const model::ModelSpec& spec, TensorShare tensor, const pipeline::StagePlan* stages, const mesh::MeshContext& mesh);

}  // namespace tessera::parallel
