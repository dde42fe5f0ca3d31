#include "tessera/train/examine.h"

#include "tessera/mesh/mesh_sizes.h"

namespace tessera::train {
namespace {

void append(std::vector<Problem>& all, const std::vector<Problem>& more) { all.insert(all.end(), more.begin(), more.end()); }

/// Gradients of several microbatches add up unsharded when their reduction waits for the last one. Replicas of shards reduce inside the replica all
/// the same and defer only what crosses replicas.
bool adds_up_unsharded(const config::Recipe& recipe, const mesh::MeshSizes& mesh) {
  const std::int64_t microbatches = recipe.step_scheduler.global_batch_size / (recipe.step_scheduler.local_batch_size * mesh.dp());
  return recipe.distributed.fsdp2.defer_fsdp_grad_sync && microbatches > 1 && mesh.dp_replicate == 1;
}

}  // namespace

Examination examine(const config::LoadedRecipe& recipe, const config::Environment& environment, std::int64_t world_size) {
  Examination result;
  result.problems = recipe.unsupported;
  const std::vector<Problem> absent = config::absent_resources(recipe, environment);
  append(result.problems, absent);
  ProblemList about_ranks;
  config::validate_parallelism(recipe.recipe.distributed, world_size, config::locate_in(recipe.tree), about_ranks);
  if (about_ranks.empty()) result.mesh = mesh::mesh_sizes(recipe.recipe.distributed, world_size);
  if (const auto dp_size = config::data_parallel_size(recipe.recipe.distributed.sizes, world_size))
    config::validate_batch_sizes(recipe, *dp_size, about_ranks);
  try {
    result.plan = plan_model(recipe, environment);
    config::validate_heads(recipe.recipe.distributed.sizes, result.plan->spec.num_attention_heads, result.plan->spec.num_key_value_heads,
                           config::locate_in(recipe.tree), about_ranks);
  } catch (const UserError& error) {
    // A model that is not on disk has been listed already.
    if (absent.empty()) append(result.problems, error.problems());
  }
  append(result.problems, about_ranks.problems());
  return result;
}

model::StateSharding state_sharding(const config::Recipe& recipe, const mesh::MeshSizes& mesh) {
  const std::int64_t shards = mesh.dp_shard * mesh.cp;
  const config::Distributed& distributed = recipe.distributed;
  switch (distributed.strategy) {
    case config::Strategy::Ddp:
      return {};
    case config::Strategy::MegatronFsdp: {
      const auto from = [&](std::int64_t stage) { return distributed.megatron_fsdp.zero_dp_strategy >= stage ? shards : 1; };
      return {.weights = from(3), .gradients = from(2), .optimizer = from(1), .frees_units = true};
    }
    case config::Strategy::Fsdp2:
      return {.weights = shards,
              .gradients = adds_up_unsharded(recipe, mesh) ? 1 : shards,
              .optimizer = shards,
              .frees_units = distributed.fsdp2.reshard_after_forward.value_or(true)};
  }
  TESSERA_ASSERT(false, "no such strategy");
}

}  // namespace tessera::train
