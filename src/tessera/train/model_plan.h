#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tessera/checkpoint/signature.h"
#include "tessera/config/recipe.h"
#include "tessera/core/dtype.h"
#include "tessera/core/environment.h"
#include "tessera/core/json.h"
#include "tessera/model/spec.h"

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
ModelPlan plan_model(const config::LoadedRecipe& recipe, const Environment& environment);
checkpoint::ModelSignature signature_of(const ModelPlan& plan);

/// Where the `what` ("the model") that a recipe names under `key` lies. UserError, at the key, when it is not on disk.
std::filesystem::path path_on_disk(const config::LoadedRecipe& recipe, const std::string& key, const std::string& what, const std::string& name,
                                   const Environment& environment);

}  // namespace tessera::train
