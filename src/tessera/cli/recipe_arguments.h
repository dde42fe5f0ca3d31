#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "tessera/config/recipe.h"

namespace tessera::cli {

/// RECIPE.yaml and the overrides after it, as `train` and `check` take them.
struct RecipeArguments {
  std::filesystem::path path;
  CLI::App* parser = nullptr;  ///< what it did not recognise are the overrides
};
std::shared_ptr<RecipeArguments> add_recipe_arguments(CLI::App& parser);

/// Reads the recipe with its overrides. Its mistakes are in it, so that train::examine reports them with all others.
config::LoadedRecipe read(const RecipeArguments& arguments);

}  // namespace tessera::cli
