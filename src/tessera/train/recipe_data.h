#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tessera/config/recipe.h"
#include "tessera/core/environment.h"
#include "tessera/data/loader.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/train/model_plan.h"

namespace tessera::train {

/// A recipe's training data as samples, or as packs of them when it asks for those, and the tokenizer that made them (none for data that brings its
/// own tokens).
struct RecipeData {
  std::shared_ptr<const data::Dataset> dataset;
  std::optional<data::Tokenizer> tokenizer;
};
/// What `build_objects` trains on. UserError with everything wrong about it.
RecipeData build_recipe_data(const config::LoadedRecipe& recipe, const Environment& environment);

/// Which of a recipe's datasets, and who loads it.
struct LoaderRequest {
  const config::Dataset& dataset;
  const config::Dataloader& dataloader;
  const mesh::MeshContext& mesh;
  std::string section;
  bool training = true;
};
/// Of a loader's options, those that decide in which order the dataset's samples come.
data::LoaderOptions order_of_samples(const config::Recipe& recipe, const config::Dataset& dataset, const config::Dataloader& dataloader,
                                     bool training);
/// This rank's batches of a dataset. UserError with everything wrong about it.
std::unique_ptr<data::Loader> make_loader(const config::LoadedRecipe& recipe, const ModelPlan& plan, const Environment& environment,
                                          const LoaderRequest& request);

/// Where the tokenizer that the dataset of this section names, or else the recipe, lies; nullopt when neither names one.
std::optional<std::filesystem::path> named_tokenizer(const config::LoadedRecipe& recipe, const config::Dataset& dataset, const std::string& section,
                                                     const Environment& environment);

}  // namespace tessera::train
