#include "tessera/parallel/rank_table.h"

#include "tessera/parallel/expert/share.h"
#include "tessera/parallel/pipeline/stage_table.h"

namespace tessera::parallel {

model::ParameterTable rank_table(const model::ModelSpec& spec, TensorShare tensor, const pipeline::StagePlan* stages, const mesh::MeshContext& mesh) {
  tensor.size = mesh.size(mesh::Axis::Tensor);
  tensor.rank = mesh.index(mesh::Axis::Tensor);
  model::ParameterTable table = tensor_parallel_table(spec, tensor);
  if (stages != nullptr) table = pipeline::stage_table(table, *stages, static_cast<int>(mesh.index(mesh::Axis::PipelineParallel)));
  return expert_parallel_table(std::move(table), {.size = mesh.size(mesh::Axis::Expert), .rank = mesh.index(mesh::Axis::Expert)});
}

}  // namespace tessera::parallel
