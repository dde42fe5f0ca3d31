#include "tessera/cli/recipe_arguments.h"

#include <cstdlib>

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

config::LoadedRecipe load(const RecipeArguments& arguments) {
  return config::load_recipe(arguments.path, arguments.parser->remaining(), process_environment());
}

config::Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

}  // namespace tessera::cli
