#include "tessera/train/examine.h"

#include <fmt/format.h>

#include "tessera/mesh/mesh_sizes.h"
#include "tessera/parallel/tensor/plan.h"

namespace tessera::train {
namespace {

void append(std::vector<Problem>& all, const std::vector<Problem>& more) { all.insert(all.end(), more.begin(), more.end()); }

/// Weights are computed in the model's own dtype; a recipe that asks for another one is not to be trained in silence.
void refuse_other_dtypes(const config::LoadedRecipe& loaded, DType compute, std::vector<Problem>& problems) {
  const config::Fsdp2Options& options = loaded.recipe.distributed.fsdp2;
  const auto refuse = [&](const std::string& key, const std::optional<DType>& asked) {
    if (!asked || *asked == compute) return;
    problems.push_back({config::where(loaded.tree, key), fmt::format("{}: {} is not supported yet", key, torch_name(*asked)),
                        fmt::format("the model computes in its own dtype, {}", torch_name(compute)),
                        fmt::format("set model.torch_dtype: {} (masters stay fp32), or leave this out", torch_name(*asked))});
  };
  if (options.mp_policy) refuse("distributed.mp_policy.param_dtype", options.mp_policy->param_dtype);
  refuse("distributed.autocast_dtype", options.autocast_dtype);
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
    parallel::plan_split(recipe.recipe.distributed, result.plan->spec, config::locate_in(recipe.tree), about_ranks);
    if (world_size > 1) refuse_other_dtypes(recipe, result.plan->dtype, result.problems);
  } catch (const UserError& error) {
    // A model that is not on disk has been listed already.
    if (absent.empty()) append(result.problems, error.problems());
  }
  append(result.problems, about_ranks.problems());
  return result;
}

std::int64_t num_microbatches(const config::StepScheduler& sizes, std::int64_t dp_size) {
  return sizes.global_batch_size / (sizes.local_batch_size * dp_size);
}

}  // namespace tessera::train
