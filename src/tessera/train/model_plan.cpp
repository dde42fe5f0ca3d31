#include "tessera/train/model_plan.h"

#include <fmt/format.h>

#include "tessera/config/hub.h"
#include "tessera/core/error.h"
#include "tessera/model/causal_lm.h"
#include "tessera/model/config.h"
#include "tessera/model/config_position.h"
#include "tessera/model/parameter_table.h"
#include "tessera/parallel/data/policy.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

/// Where the recipe sets a field of the model's configuration, if it does.
std::optional<std::string> where_in_recipe(const config::LoadedRecipe& loaded, const std::string& field) {
  if (!loaded.recipe.model.config.contains(field)) return std::nullopt;
  for (const char* section : {"model.config.", "model."})
    if (config::find_path(loaded.tree, section + field) != nullptr) return config::where(loaded.tree, section + field);
  return std::nullopt;
}

/// The dtype that a recipe's sharding strategy has its model compute in, whatever the model's own.
std::optional<DType> param_dtype(const config::Distributed& distributed) {
  const std::optional<config::MixedPrecisionPolicy> policy = parallel::fsdp2_options(distributed).mp_policy;
  return distributed.strategy == config::Strategy::Fsdp2 && policy ? policy->param_dtype : std::nullopt;
}

}  // namespace

fs::path path_on_disk(const config::LoadedRecipe& loaded, const std::string& key, const std::string& what, const std::string& name,
                      const Environment& environment) {
  if (const auto path = config::find_on_disk(name, environment)) return *path;
  throw UserError({config::where(loaded.tree, key), fmt::format("{} \"{}\" is not on disk", what, name), std::string(config::kModelsAreLocal),
                   "give the path of a local copy"});
}

checkpoint::ModelSignature signature_of(const ModelPlan& plan) { return checkpoint::model_signature(plan.spec, model::parameter_table(plan.spec)); }

ModelPlan plan_model(const config::LoadedRecipe& loaded, const Environment& environment) {
  const config::Recipe& recipe = loaded.recipe;
  ModelPlan plan;
  plan.pretrained = recipe.model.source == config::ModelSource::Pretrained;
  std::string where = config::where(loaded.tree, "model");
  model::LocateField locate = [&](const std::string&) { return where; };
  plan.config = Json::object();
  if (!recipe.model.path.empty()) {
    const fs::path path = path_on_disk(loaded, "model", "the model", recipe.model.path, environment);
    if (fs::is_directory(path)) plan.directory = path;
    plan.config = model::read_config_json(path);
    const fs::path file = plan.directory ? path / "config.json" : path;
    where = file.string();
    locate = model::lines_of_fields(file);
  }
  plan.config.merge_patch(recipe.model.config);
  plan.spec =
      model::model_spec_from_json(plan.config, where, [&](const std::string& key) { return where_in_recipe(loaded, key).value_or(locate(key)); });
  if (recipe.loss_fn.logit_softcapping > 0.0) plan.spec.final_soft_cap = recipe.loss_fn.logit_softcapping;
  plan.saved_dtype = recipe.model.torch_dtype.value_or(model::default_compute_dtype(plan.spec));
  plan.dtype = param_dtype(recipe.distributed).value_or(plan.saved_dtype);
  if (plan.dtype == DType::F32) plan.saved_dtype = DType::F32;
  return plan;
}

}  // namespace tessera::train
