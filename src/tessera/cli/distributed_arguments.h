#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/config/recipe.h"

namespace tessera::cli {

/// Of a command that has no recipe but runs over ranks: the recipe of nothing but the overrides on its command line. UserError for all but
/// `--distributed.…` and the keys in `besides` (with `rule` and `fix`), for unknown keys and values, and for what is not supported.
config::LoadedRecipe recipe_of_overrides(const std::vector<std::string>& arguments, const std::vector<std::string>& besides, const std::string& rule,
                                         const std::string& fix);

/// The same where only `--distributed.…` may stand. Nothing in a process that was started alone and says nothing.
std::optional<config::Distributed> distributed_of_overrides(const std::vector<std::string>& arguments);

}  // namespace tessera::cli
