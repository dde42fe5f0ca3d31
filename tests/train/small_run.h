#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/train/run.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {

/// Trains the small recipe in this process.
inline RunSummary train_small(const std::filesystem::path& directory, const std::vector<std::string>& overrides = {}) {
  return train(load_small_recipe(directory, overrides), no_variables, tessera::test::one_process_backend());
}

}  // namespace tessera::train::test
