#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/support.h"
#include "tessera/config/recipe.h"

namespace tessera::config {

inline std::optional<std::string> no_variables(std::string_view) { return std::nullopt; }

/// A recipe of these lines and, where they lack them, a model and a dataset.
inline LoadedRecipe with(const std::string& lines) {
  const Node tree = parse_yaml(lines, "r.yaml");
  std::string rest;
  if (!tree.find("model")) rest += "\nmodel: {pretrained_model_name_or_path: m}\n";
  if (!tree.find("dataset")) rest += "\ndataset: {_target_: mock}\n";
  return load_recipe(parse_yaml(lines + rest, "r.yaml"), no_variables);
}
inline std::string mistakes_of(const std::string& lines) {
  return test::error_of([&] { with(lines); });
}
inline std::vector<std::string> refusals_of(const std::string& lines) {
  std::vector<std::string> all;
  for (const Problem& problem : with(lines).unsupported) all.push_back(problem.what);
  return all;
}

}  // namespace tessera::config
