#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/config/recipe.h"
#include "tessera/data/loader.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/schedule.h"
#include "tessera/parallel/causal_lm.h"
#include "tessera/train/routing.h"

namespace tessera::train {

/// What a recipe says about the model, before any memory is taken.
struct ModelPlan {
  model::ModelSpec spec;
  Json config;                                     ///< config.json with the recipe's overrides
  std::optional<std::filesystem::path> directory;  ///< where weights and tokenizer come from, when that is a directory
  DType dtype = DType::F32;                        ///< compute dtype
  DType saved_dtype = DType::F32;                  ///< of the weights in checkpoints; fp32 ones may be of masters
  bool pretrained = true;
};
/// UserError with everything wrong about it.
ModelPlan plan_model(const config::LoadedRecipe& recipe, const config::Environment& environment);
checkpoint::ModelSignature signature_of(const ModelPlan& plan);

/// A recipe's training data as samples, or as packs of them when it asks for those, and the tokenizer that made them (none for data that brings its
/// own tokens).
struct RecipeData {
  std::shared_ptr<const data::Dataset> dataset;
  std::optional<data::Tokenizer> tokenizer;
};
/// What `build_objects` trains on. UserError with everything wrong about it.
RecipeData build_recipe_data(const config::LoadedRecipe& recipe, const config::Environment& environment);

/// The recipe's word for it as the decoder's.
model::ActivationCheckpointing to_model(config::ActivationCheckpointing value);

/// The parameters that freeze_config and moe_overrides leave untouched; empty when there are none.
std::function<bool(const model::ParameterSpec&)> frozen_parameters(const config::Recipe& recipe);

struct ValidationSet {
  std::string name;
  std::unique_ptr<data::Loader> loader;
};

/// Everything one rank of a run trains with.
struct TrainingObjects {
  ModelPlan plan;
  parallel::DistributedSetup setup;
  parallel::CausalLM model;
  std::unique_ptr<ExpertTraining> experts;  ///< null: nothing is counted
  std::unique_ptr<data::Loader> loader;
  std::vector<ValidationSet> validation;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::Schedule schedule;
  std::int64_t total_steps = 0;
  checkpoint::ModelSignature signature;
  checkpoint::ModelFiles model_files;  ///< at rank 0, which writes them
};

/// Refuses what `check` lists, reads data and model, and builds the rest from them. UserError for everything that prevents that. Every rank of
/// the backend, which must outlive the objects, calls it.
TrainingObjects build_objects(const config::LoadedRecipe& recipe, const config::Environment& environment, comm::Backend& backend);

}  // namespace tessera::train
