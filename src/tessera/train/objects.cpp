#include "tessera/train/objects.h"

#include <algorithm>
#include <optional>
#include <regex>

#include "tessera/config/interpolate.h"
#include "tessera/core/error.h"
#include "tessera/formats/huggingface.h"
#include "tessera/train/examine.h"
#include "tessera/train/lr_schedule.h"
#include "tessera/train/recipe_data.h"

namespace tessera::train {

model::ParameterPredicate frozen_parameters(const config::Recipe& recipe) {
  const config::FreezeConfig& freeze = recipe.freeze_config;
  const bool freeze_routers = !recipe.model.moe_overrides.train_gate;
  if (!freeze.freeze_embeddings && !freeze.freeze_language_model && freeze.patterns.empty() && !freeze_routers) return nullptr;
  std::vector<std::regex> patterns;
  for (const std::string& pattern : freeze.patterns) patterns.emplace_back(pattern);
  return [freeze, freeze_routers, patterns](const model::ParameterSpec& parameter) {
    const bool embedding = parameter.role == model::Role::Embedding || parameter.role == model::Role::PositionEmbedding;
    if (freeze.freeze_language_model || (freeze.freeze_embeddings && embedding)) return true;
    if (freeze_routers && parameter.role == model::Role::Router) return true;
    return std::ranges::any_of(patterns, [&](const std::regex& pattern) {
      return std::ranges::any_of(parameter.pieces, [&](const model::Piece& piece) { return std::regex_search(piece.tensor, pattern); });
    });
  };
}

namespace {

parallel::CausalLM make_model(const config::Recipe& recipe, const ModelPlan& plan, const parallel::DistributedSetup& setup) {
  const model::CausalLMOptions options{.dtype = plan.dtype,
                                       .trainable = true,
                                       .frozen = frozen_parameters(recipe),
                                       .decoder = {.activation_checkpointing = recipe.distributed.activation_checkpointing,
                                                   .routing = routing_options(recipe),
                                                   .dropout_seed = recipe.seed},
                                       .placement = {}};
  const std::int64_t microbatches = num_microbatches(recipe, setup.mesh->dp_size());
  if (plan.pretrained) return parallel::CausalLM::from_pretrained(*plan.directory, plan.spec, setup, options, microbatches);
  return parallel::CausalLM::from_config(plan.spec, recipe.seed, setup, options, microbatches);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the function in `options` owns what it holds

optim::AdamOptions adam_options(const config::LoadedRecipe& loaded) {
  const config::Optimizer& optimizer = loaded.recipe.optimizer;
  optim::AdamOptions options{.kind = optimizer.kind, .betas = optimizer.betas, .epsilon = optimizer.eps};
  options.groups.decay_groups = optimizer.decay_groups;
  const std::string where = config::where(loaded.tree, "optimizer.param_group_overrides");
  for (const config::ParamGroupOverride& group : optimizer.param_group_overrides)
    options.groups.patterns.push_back({group.pattern, {group.lr_mult, group.wd_mult}, where});
  return options;
}

/// Of a model that was not loaded from a directory: its config.json, and the tokenizer's files when the recipe names one.
checkpoint::ModelFiles make_model_files(const config::LoadedRecipe& loaded, const ModelPlan& plan, const Environment& environment) {
  if (plan.pretrained) return checkpoint::model_files(*plan.directory, plan.saved_dtype);
  Json config = plan.config;
  config["torch_dtype"] = std::string(torch_name(plan.saved_dtype));
  checkpoint::ModelFiles files{config.dump(2) + "\n", {}};
  std::optional<std::filesystem::path> tokenizer = named_tokenizer(loaded, *loaded.recipe.dataset, "dataset", environment);
  if (!tokenizer) tokenizer = plan.directory;
  if (tokenizer && std::filesystem::is_directory(*tokenizer))
    files.others = checkpoint::read_files(formats::find_tokenizer_files(*tokenizer).existing());
  return files;
}

TrainingObjects build_examined(const config::LoadedRecipe& loaded, const ModelPlan& plan, const Environment& environment, comm::Backend& backend) {
  const config::Recipe& recipe = loaded.recipe;
  parallel::DistributedSetup setup = parallel::DistributedSetup::build(backend, recipe.distributed);
  const mesh::MeshContext& mesh = *setup.mesh;
  TrainingObjects objects{.plan = plan,
                          .setup = std::move(setup),
                          .model = {},
                          .experts = nullptr,
                          .loader = make_loader(loaded, plan, environment, {*recipe.dataset, recipe.dataloader, mesh, "dataset", true}),
                          .validation = {},
                          .optimizer = nullptr,
                          .schedule = {},
                          .total_steps = 0,
                          .signature = {},
                          .model_files = backend.rank() == 0 ? make_model_files(loaded, plan, environment) : checkpoint::ModelFiles{}};
  for (const config::ValidationDataset& set : recipe.validation_datasets)
    objects.validation.push_back(
        {set.name, make_loader(loaded, plan, environment, {set.dataset, recipe.validation_dataloader, mesh, set.key, false})});
  objects.total_steps = total_steps(recipe.step_scheduler, objects.loader->steps_per_epoch());
  ProblemList problems;
  objects.schedule = make_lr_schedule(loaded, objects.total_steps, problems);
  problems.throw_if_any();
  objects.model = make_model(recipe, plan, objects.setup);
  objects.experts = make_expert_training(objects.model, recipe);
  objects.optimizer = std::make_unique<optim::Optimizer>(*objects.model.model.store, adam_options(loaded));
  objects.signature = signature_of(plan);
  return objects;
}

}  // namespace

TrainingObjects build_objects(const config::LoadedRecipe& loaded, const Environment& environment, comm::Backend& backend) {
  Examination examination = examine(loaded, environment, backend.world_size(), backend.rank());
  if (!examination.problems.empty()) throw UserError(std::move(examination.problems));
  return config::with_placeholders(loaded.tree, environment, [&] { return build_examined(loaded, *examination.plan, environment, backend); });
}

}  // namespace tessera::train
