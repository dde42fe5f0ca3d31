#include "tessera/train/memory_plan.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "tessera/model/activation_memory.h"
#include "tessera/ops/bfloat16_gemm.h"
#include "tessera/parallel/data/transient_memory.h"
#include "tessera/parallel/expert/share.h"
#include "tessera/parallel/pipeline/stage_table.h"
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

/// What all ranks of a run have in common.
struct Run {
  model::ModelSpec spec;  ///< as a rank of tensor parallelism has it
  model::MemoryRequest request;
  parallel::DataParallelPolicy policy;
  model::Placement placement;
  std::optional<model::Placement> expert_placement;
  model::ParameterPredicate full_precision, frozen;
  std::int64_t num_microbatches = 1;
  bool saves_in_background = false;
};

model::StateSharding sharding(const model::Placement& place) {
  return {.weights = place.whole_weights ? 1 : place.num_shards,
          .gradients = place.whole_gradients ? 1 : place.num_shards,
          .optimizer = place.num_shards};
}

/// A copy of the weights, masters and moments that a rank owns: equal parts for the ranks that hold the same.
std::int64_t staging(model::MemoryRequest request, const model::Placement& place, std::int64_t elements) {
  const std::int64_t owners = place.num_shards * place.num_replicas;
  request.sharding = {.weights = owners, .gradients = owners, .optimizer = owners};
  const model::MemoryEstimate state = model::estimate_state(elements, request);
  return state.weights + state.optimizer;
}

std::int64_t trained_elements(const model::ParameterTable& table, const model::ParameterPredicate& frozen) {
  std::int64_t elements = 0;
  for (const model::ParameterSpec& parameter : table.parameters)
    if (!frozen || !frozen(parameter)) elements += parameter.num_elements();
  return elements;
}

/// Adds parameters that lie so and are computed with in this dtype.
void add_state(const Run& run, const model::ParameterTable& table, const model::Placement& place, DType compute, model::MemoryEstimate& estimate,
               parallel::TransientMemory& transient) {
  model::MemoryRequest request = run.request;
  request.compute_dtype = compute;
  request.sharding = sharding(place);
  request.trainable_elements = trained_elements(table, run.frozen);
  const model::MemoryEstimate state = model::estimate_state(table.num_elements(), request);
  estimate.weights += state.weights;
  estimate.gradients += state.gradients;
  estimate.optimizer += state.optimizer;
  if (run.saves_in_background) estimate.staging += staging(request, place, table.num_elements());
  const auto more = parallel::transient_memory(table, run.policy, place, compute, run.num_microbatches, run.frozen);
  transient.gathered_at_loss += more.gathered_at_loss;
  transient.gathered_in_passes += more.gathered_in_passes;
  transient.messages += more.messages;
}

/// A rank with these parameters and activations.
model::MemoryEstimate estimate(const Run& run, const model::ParameterTable& table, const model::ActivationBytes& activations) {
  model::MemoryEstimate estimate;
  parallel::TransientMemory transient;
  model::ParameterTable rest = table;
  const auto add_apart = [&](const auto& belongs, const model::Placement& place, DType compute) {
    model::ParameterTable apart = rest;
    apart.tied_head = false;
    std::erase_if(apart.parameters, std::not_fn(belongs));
    std::erase_if(rest.parameters, belongs);
    add_state(run, apart, place, compute, estimate, transient);
  };
  const auto is_of_experts = [](const model::ParameterSpec& parameter) { return parameter.role == model::Role::Experts; };
  if (run.expert_placement) add_apart(is_of_experts, *run.expert_placement, run.request.compute_dtype);
  if (run.full_precision) add_apart(run.full_precision, run.placement, DType::F32);
  add_state(run, rest, run.placement, run.request.compute_dtype, estimate, transient);
  // What is gathered and what is computed do not peak together: the fuller of the two moments.
  const bool at_loss = activations.loss + transient.gathered_at_loss > activations.blocks + transient.gathered_in_passes;
  estimate.gathered = at_loss ? transient.gathered_at_loss : transient.gathered_in_passes;
  estimate.activations = at_loss ? activations.loss : activations.blocks;
  estimate.messages = transient.messages;
  return estimate;
}

/// Of one microbatch in one stage.
model::ActivationBytes activations_of(const Run& run, const model::UnitRange& units) {
  const auto num_units = static_cast<int>(run.spec.num_layers()) + 2;
  const int first = std::max(units.first, 1) - 1, end = std::min(units.end, num_units - 1) - 1;
  model::ModelSpec stage = run.spec;
  stage.layers.assign(run.spec.layers.begin() + first, run.spec.layers.begin() + end);
  model::ActivationBytes bytes = model::activation_bytes(stage, run.request);
  if (units.end < num_units) bytes.loss = bytes.kept;
  if (stage.layers.empty()) bytes.blocks = bytes.kept;
  return bytes;
}

/// The most at any of a rank's passes: what waits for its backward, and what the pass itself takes.
model::ActivationBytes activations_of(const Run& run, const parallel::PipelinePlan& plan, int rank) {
  model::ActivationBytes most;
  for (const pipeline::Action& action : plan.schedule[static_cast<std::size_t>(rank)]) {
    const model::ActivationBytes own = activations_of(run, plan.stages.units[static_cast<std::size_t>(action.stage)]);
    if (action.kind == pipeline::ActionKind::Forward) most.kept += own.kept;
    most.loss = std::max(most.loss, most.kept + own.loss - own.kept);
    most.blocks = std::max(most.blocks, most.kept + own.blocks - own.kept);
    if (pipeline::makes_weight_gradient(action.kind)) most.kept -= own.kept;
  }
  return most;
}

}  // namespace

std::vector<model::MemoryEstimate> memory_plan(const config::Recipe& recipe, const model::ModelSpec& whole, DType compute,
                                               const mesh::MeshSizes& mesh, std::int64_t num_rows, std::int64_t length,
                                               const std::optional<parallel::PipelinePlan>& pipeline) {
  Run run{.spec = share_of(recipe, whole, mesh.tp),
          .request = {},
          .policy = {},
          .placement = {},
          .expert_placement = {},
          .full_precision = {},
          .frozen = {}};
  run.num_microbatches = num_microbatches(recipe, mesh.dp());
  run.policy = parallel::data_parallel_policy(recipe.distributed, compute, run.num_microbatches);
  run.placement = parallel::placement(run.policy, mesh::MeshContext(mesh, 0));
  run.expert_placement = parallel::expert_placement(run.policy, mesh::MeshContext(mesh, 0));
  run.full_precision = parallel::full_precision(recipe.distributed, compute);
  run.frozen = frozen_parameters(recipe);
  run.saves_in_background = recipe.checkpoint.enabled && recipe.checkpoint.is_async;
  run.request = {.compute_dtype = compute,
                 .num_rows = num_rows,
                 .length = (length + mesh.cp - 1) / mesh.cp,
                 .activation_checkpointing = recipe.distributed.activation_checkpointing,
                 .bfloat16_gemm = ops::has_bfloat16_gemm(at::empty({0}, at::kBFloat16)),
                 .sharding = {}};
  const model::ParameterTable table = parallel::expert_parallel_table(model::parameter_table(run.spec), {.size = mesh.ep});
  if (!pipeline) return {estimate(run, table, model::activation_bytes(run.spec, run.request))};
  std::vector<model::MemoryEstimate> ranks;
  for (int rank = 0; rank < static_cast<int>(mesh.pp); ++rank)
    ranks.push_back(estimate(run, pipeline::stage_table(table, pipeline->stages, rank), activations_of(run, *pipeline, rank)));
  return ranks;
}

}  // namespace tessera::train
