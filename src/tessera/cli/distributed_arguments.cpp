#include "tessera/cli/distributed_arguments.h"

#include <algorithm>

#include "tessera/cli/rank_arguments.h"
#include "tessera/config/override.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"

namespace tessera::cli {

config::LoadedRecipe recipe_of_overrides(const std::vector<std::string>& arguments, const std::vector<std::string>& besides, const std::string& rule,
                                         const std::string& fix) {
  ProblemList problems;
  const std::vector<config::Override> overrides = config::parse_overrides(arguments, problems);
  for (const config::Override& given : overrides) {
    if (given.path.starts_with("distributed.") || std::ranges::count(besides, given.path) > 0) continue;
    if (given.path.find('.') == std::string::npos) {
      problems.add({"command line", "--" + given.path + " is an unknown option", "", "see --help"});
    } else {
      problems.add({"command line", "--" + given.path + " means nothing here", rule, fix});
    }
  }
  config::Node tree = config::parse_yaml(
      "model: {_target_: from_config, config: {model_type: llama}}\ndataset: {_target_: mock_unpacked}\n"
      "distributed: {pipeline: {}}\n",
      "command line");
  config::apply_overrides(tree, overrides, problems);
  problems.throw_if_any();
  config::LoadedRecipe loaded = config::load_recipe(std::move(tree), process_environment());
  if (!loaded.unsupported.empty()) throw UserError(loaded.unsupported);
  return loaded;
}

std::optional<config::Distributed> distributed_of_overrides(const std::vector<std::string>& arguments) {
  if (world_size() == 1 && arguments.empty()) return std::nullopt;
  return recipe_of_overrides(arguments, {}, "the model says everything but how the work is split", "use --distributed.…").recipe.distributed;
}

}  // namespace tessera::cli
