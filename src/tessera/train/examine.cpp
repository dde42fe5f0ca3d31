#include "tessera/train/examine.h"

#include <fmt/format.h>

#include "tessera/checkpoint/directory.h"
#include "tessera/config/hub.h"
#include "tessera/core/writable.h"
#include "tessera/formats/tensor_source.h"
#include "tessera/mesh/mesh_sizes.h"
#include "tessera/model/load.h"
#include "tessera/model/parameter_table.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/tensor/plan.h"
#include "tessera/plan/simulate.h"
#include "tessera/train/routing.h"

namespace tessera::train {
namespace {

void append(std::vector<Problem>& all, const std::vector<Problem>& more) { all.insert(all.end(), more.begin(), more.end()); }

/// A recipe that asks for dtypes that nothing here computes in is not to be trained in silence.
void refuse_other_dtypes(const config::LoadedRecipe& loaded, const ModelPlan& plan, std::vector<Problem>& problems) {
  const config::Distributed& distributed = loaded.recipe.distributed;
  const auto refuse = [&](const std::string& key, DType asked, const std::string& rule, const std::string& fix) {
    problems.push_back({config::where(loaded.tree, key), fmt::format("{}: {} is not supported", key, torch_name(asked)), rule, fix});
  };
  if (const auto asked = distributed.fsdp2.autocast_dtype; asked && *asked != plan.dtype)
    refuse("distributed.autocast_dtype", *asked, fmt::format("the whole model computes in one dtype, here {}", torch_name(plan.dtype)),
           fmt::format("set model.torch_dtype: {} (masters stay fp32), or leave this out", torch_name(*asked)));
  const auto head = distributed.moe && distributed.sizes.ep_size > 1 ? distributed.moe->lm_head_precision : std::nullopt;
  if (!head || *head == plan.dtype) return;
  if (*head != DType::F32)
    refuse("distributed.moe.lm_head_precision", *head, "the head computes as the model does, or in float32", "use float32, or leave this out");
  else if (plan.spec.tie_word_embeddings)
    refuse("distributed.moe.lm_head_precision", *head, "the head is the embedding, which computes as the model does",
           "leave this out, or set model.torch_dtype: float32");
}

/// What a pipeline section may ask for and is not done.
void refuse_pipeline_options(const config::LoadedRecipe& loaded, DType compute, std::vector<Problem>& problems) {
  const config::Pipeline& pipeline = *loaded.recipe.distributed.pipeline;
  const auto refuse = [&](const std::string& key, const std::string& value, const std::string& rule, const std::string& fix) {
    const std::string path = "distributed.pipeline." + key;
    problems.push_back({config::where(loaded.tree, path), fmt::format("{}: {} is not supported", path, value), rule, fix});
  };
  if (pipeline.scale_grads_in_schedule)
    refuse("scale_grads_in_schedule", "true", "gradients are those of the loss per label of the whole step; nothing is left to scale", "use false");
  if (pipeline.dtype && *pipeline.dtype != compute)
    refuse("dtype", std::string(torch_name(*pipeline.dtype)),
           fmt::format("what stages hand over is in the dtype that the model computes in, {}", torch_name(compute)), "leave it out");
}

/// Stages and schedule of the recipe's steps.
std::optional<parallel::PipelinePlan> examine_pipeline(const config::LoadedRecipe& loaded, const ModelPlan& plan, std::int64_t dp_size,
                                                       ProblemList& problems) {
  const config::Recipe& recipe = loaded.recipe;
  if (recipe.distributed.sizes.pp_size == 1 || !recipe.distributed.pipeline) return std::nullopt;
  const config::StepScheduler& sizes = recipe.step_scheduler;
  const config::Locate locate = config::locate_in(loaded.tree);
  const auto num_microbatches =
      pipeline::num_pipeline_microbatches(*recipe.distributed.pipeline, sizes.global_batch_size, sizes.local_batch_size, dp_size, locate, problems);
  if (!num_microbatches) return std::nullopt;
  auto pipeline = parallel::plan_pipeline(recipe.distributed, plan.spec, *num_microbatches, locate, problems);
  if (!pipeline || recipe.distributed.pipeline->pp_schedule_csv.empty()) return pipeline;
  // Our own schedules are known to end; somebody else's is run through once.
  try {
    plan::simulate(pipeline::lower(pipeline->schedule, pipeline->stages.placement), pipeline->stages.placement);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems())
      problems.add({config::where(loaded.tree, "distributed.pipeline.pp_schedule_csv"), "distributed.pipeline.pp_schedule_csv: " + problem.what,
                    problem.rule, problem.fix});
  }
  return pipeline;
}

bool is_listed_as_absent(const config::Model& model, const config::Environment& environment) {
  return !model.path.empty() && !config::find_on_disk(model.path, environment);
}

/// Of the headers alone: tensors that are missing, surplus or of another shape, files that are cut short.
void check_weights_on_disk(const ModelPlan& plan) {
  if (plan.pretrained && plan.directory) model::check_weights(model::parameter_table(plan.spec), *formats::open_huggingface_source(*plan.directory));
}

/// That what the run writes can be written; nothing is created.
void check_output_directories(const config::LoadedRecipe& loaded, ProblemList& problems) {
  const auto check = [&](const std::string& key, const std::string& directory) {
    if (const std::string why = why_not_writable(directory); !why.empty())
      problems.add({config::where(loaded.tree, key), fmt::format("{}: {} cannot be written: {}", key, directory, why), "",
                    "choose another directory or mend its permissions"});
  };
  const config::Recipe& recipe = loaded.recipe;
  if (recipe.checkpoint.enabled) check("checkpoint.checkpoint_dir", recipe.checkpoint.checkpoint_dir);
  if (!recipe.logging.directory.empty()) check("logging.directory", recipe.logging.directory);
}

/// That the checkpoint to begin from is there.
void check_restore_point(const config::LoadedRecipe& loaded, ProblemList& problems) {
  const config::Checkpoint& options = loaded.recipe.checkpoint;
  if (!options.enabled || options.restore_from.empty()) return;
  try {
    checkpoint::check_restore_from(options.checkpoint_dir, options.restore_from, !options.restore_optimizer);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems())
      problems.add({config::where(loaded.tree, "checkpoint.restore_from"), problem.where + ": " + problem.what, problem.rule, problem.fix});
  }
}

}  // namespace

Examination examine(const config::LoadedRecipe& recipe, const config::Environment& environment, std::int64_t world_size) {
  Examination result;
  result.problems = recipe.unsupported;
  append(result.problems, config::absent_resources(recipe, environment));
  ProblemList about_ranks;
  config::validate_parallelism(recipe.recipe.distributed, world_size, config::locate_in(recipe.tree), about_ranks);
  if (about_ranks.empty()) result.mesh = mesh::mesh_sizes(recipe.recipe.distributed, world_size);
  const auto dp_size = config::data_parallel_size(recipe.recipe.distributed.sizes, world_size);
  if (dp_size) config::validate_batch_sizes(recipe, *dp_size, about_ranks);
  try {
    result.plan = plan_model(recipe, environment);
    if (about_ranks.empty() && dp_size) result.pipeline = examine_pipeline(recipe, *result.plan, *dp_size, about_ranks);
    if (result.pipeline) refuse_pipeline_options(recipe, result.plan->dtype, result.problems);
    const std::size_t before = about_ranks.problems().size();
    parallel::plan_split(recipe.recipe.distributed, result.plan->spec, config::locate_in(recipe.tree), about_ranks);
    if (about_ranks.problems().size() > before) result.mesh.reset();  // the model does not divide among these ranks
    refuse_expert_options(recipe, result.plan->spec, result.problems);
    if (world_size > 1) refuse_other_dtypes(recipe, *result.plan, result.problems);
    check_weights_on_disk(*result.plan);
  } catch (const UserError& error) {
    if (!is_listed_as_absent(recipe.recipe.model, environment)) append(result.problems, error.problems());
  }
  check_output_directories(recipe, about_ranks);
  check_restore_point(recipe, about_ranks);
  append(result.problems, about_ranks.problems());
  return result;
}

std::int64_t microbatch_rows(const config::Distributed& distributed, std::int64_t local_batch_size) {
  const std::int64_t rows = distributed.pipeline ? distributed.pipeline->pp_microbatch_size : 1;
  return distributed.sizes.pp_size > 1 && local_batch_size % rows == 0 ? rows : local_batch_size;
}

std::int64_t num_microbatches(const config::Recipe& recipe, std::int64_t dp_size) {
  const config::StepScheduler& sizes = recipe.step_scheduler;
  return sizes.global_batch_size / (microbatch_rows(recipe.distributed, sizes.local_batch_size) * dp_size);
}

}  // namespace tessera::train
