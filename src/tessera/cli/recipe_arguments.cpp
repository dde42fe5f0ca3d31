#include "tessera/cli/recipe_arguments.h"

#include "tessera/core/environment.h"

namespace tessera::cli {

std::shared_ptr<RecipeArguments> add_recipe_arguments(CLI::App& parser) {
  const auto arguments = std::make_shared<RecipeArguments>();
  arguments->parser = &parser;
  parser
      .add_option("RECIPE", arguments->path,
                  "Recipe in NeMo AutoModel's form; overrides may follow: --section.key VALUE, --section.key=VALUE, --flag")
      ->required();
  parser.allow_extras();
  return arguments;
}

config::LoadedRecipe read(const RecipeArguments& arguments) {
  return config::read_recipe(arguments.path, arguments.parser->remaining(), process_environment());
}

}  // namespace tessera::cli
