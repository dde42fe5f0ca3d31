// The recipes that people have: every one must be understood.
#include <gmock/gmock.h>

#include <iostream>
#include <map>

#include "support/support.h"
#include "tessera/config/print.h"
#include "tessera/config/recipe.h"

namespace tessera::config {
namespace {

std::optional<std::string> empty_environment(std::string_view) { return std::nullopt; }

struct Counts {
  int read = 0;
  int complete = 0;  ///< ask for nothing that is not supported
  std::map<std::string, int> refusals;
};

void read_one(const std::filesystem::path& path, Counts& counts) {
  SCOPED_TRACE(path.filename().string());
  try {
    const LoadedRecipe loaded = load_recipe(path, {}, empty_environment);
    ++counts.read;
    counts.complete += loaded.unsupported.empty() ? 1 : 0;
    for (const Problem& problem : loaded.unsupported) {
      EXPECT_THAT(problem.what, ::testing::AnyOf(::testing::EndsWith("is not supported"), ::testing::EndsWith("is not supported yet")));
      EXPECT_THAT(problem.where, ::testing::StartsWith(path.string() + ":"));
      EXPECT_FALSE(problem.rule.empty());
      ++counts.refusals[problem.what.substr(problem.what.find(" is not ") + 1)];
    }
    // What is saved with a checkpoint means the same.
    const LoadedRecipe again = load_recipe(parse_yaml(print_yaml(loaded.tree), "saved"), empty_environment);
    EXPECT_EQ(to_json(again.tree), to_json(loaded.tree));
    EXPECT_EQ(again.notes, loaded.notes);
  } catch (const UserError& error) {
    ADD_FAILURE() << error.what();
  }
}

TEST(SharedRecipes, AllParseAndTypeCheckWithoutUnknownKeys) {
  const auto directory = test::shared_data("data/recipes");
  TESSERA_SKIP_WITHOUT(directory);
  Counts counts;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".yaml") read_one(entry.path(), counts);
  }
  EXPECT_EQ(counts.read, 154);
  std::cout << counts.read << " recipes read, " << counts.complete << " ask for nothing that is missing;";
  for (const auto& [words, count] : counts.refusals) std::cout << " " << count << " times " << words << ";";
  std::cout << "\n";
}

}  // namespace
}  // namespace tessera::config
