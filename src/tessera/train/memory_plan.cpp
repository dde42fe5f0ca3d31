#include "tessera/train/memory_plan.h"

#include <ATen/ops/empty.h>

#include "tessera/model/activation_memory.h"
#include "tessera/ops/bfloat16_gemm.h"
#include "tessera/parallel/data/transient_memory.h"
#include "tessera/parallel/tensor/share.h"
#include "tessera/train/examine.h"
#include "tessera/train/objects.h"

namespace tessera::train {
namespace {

/// The model as one rank of tensor parallelism has it: narrower layers and a part of the vocabulary.
model::ModelSpec share_of(const config::Recipe& recipe, const model::ModelSpec& spec, std::int64_t tp) {
  ProblemList problems;  // reported with the recipe's others
  const parallel::TensorPlan plan = parallel::plan_split(recipe.distributed, spec, nullptr, problems);
  model::ModelSpec share = parallel::tensor_parallel_spec(spec, {.size = tp, .plan = plan});
  if (plan.feed_forward) share.intermediate_size /= tp;
  if (plan.embedding && plan.head) share.vocab_size = parallel::vocabulary_range(spec.vocab_size, {.size = tp}).count;
  return share;
}

}  // namespace

model::MemoryEstimate memory_plan(const config::Recipe& recipe, const model::ModelSpec& whole, DType compute, const mesh::MeshSizes& mesh,
                                  std::int64_t num_rows, std::int64_t length) {
  const model::ModelSpec spec = share_of(recipe, whole, mesh.tp);
  const std::int64_t microbatches = num_microbatches(recipe.step_scheduler, mesh.dp());
  const parallel::DataParallelPolicy policy = parallel::data_parallel_policy(recipe.distributed, compute, microbatches);
  const model::Placement place = parallel::placement(policy, mesh::MeshContext(mesh, 0));
  const model::MemoryRequest request{.compute_dtype = compute,
                                     .num_rows = num_rows,
                                     .length = (length + mesh.cp - 1) / mesh.cp,
                                     .activation_checkpointing = to_model(recipe.distributed.activation_checkpointing),
                                     .bfloat16_gemm = ops::has_bfloat16_gemm(at::empty({0}, at::kBFloat16)),
                                     .sharding = {.weights = place.whole_weights ? 1 : place.num_shards,
                                                  .gradients = place.whole_gradients ? 1 : place.num_shards,
                                                  .optimizer = place.num_shards}};
  model::MemoryEstimate estimate = model::estimate_memory(spec, request);
  const model::ActivationBytes activations = model::activation_bytes(spec, request);
  const parallel::TransientMemory transient = parallel::transient_memory(model::parameter_table(spec), policy, place, compute, microbatches);
  // What is gathered and what is computed do not peak together: the fuller of the two moments.
  const bool at_loss = activations.loss + transient.gathered_at_loss > activations.blocks + transient.gathered_in_passes;
  estimate.gathered = at_loss ? transient.gathered_at_loss : transient.gathered_in_passes;
  estimate.activations = at_loss ? activations.loss : activations.blocks;
  estimate.messages = transient.messages;
  return estimate;
}

}  // namespace tessera::train
