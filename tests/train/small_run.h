#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/support.h"
#include "tessera/train/run.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
using namespace tessera::test;

/// Trains the small recipe in this process, with overrides and then `more`.
inline RunSummary train_small(const std::filesystem::path& directory, std::vector<std::string> overrides = {},
                              const std::vector<std::string>& more = {}) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return train(load_small_recipe(directory, overrides), no_variables, tessera::test::one_process_backend());
}

}  // namespace tessera::train::test
