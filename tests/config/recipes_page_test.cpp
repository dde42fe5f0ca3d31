// docs/recipes.md lists the keys that sections take: all of them, and no others.
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/support.h"
#include "tessera/config/recipe.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::config {
namespace {

/// A section, and the value of the key that decides which keys it has ("_target_": "squad"), if there is one.
using Place = std::array<std::string, 3>;
using Names = std::set<std::string>;

Names matches(const std::string& text, const std::string& pattern) {
  Names found;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

/// "## `section`" and "## `section`, `key`: `value`, `value`" name the places of the tables below them.
std::vector<Place> places_of(const std::string& heading) {
  const std::vector<std::string> names = split(heading, '`');
  std::vector<Place> places;
  if (heading == "## Sections") places.push_back({});
  const bool decided = names.size() > 5;
  for (std::size_t i = decided ? 5 : 1; i < names.size(); i += 2) places.push_back(decided ? Place{names[1], names[3], names[i]} : Place{names[i]});
  return places;
}

std::map<Place, Names> keys_of_page() {
  std::map<Place, Names> keys;
  std::vector<Place> places;
  std::istringstream lines(test::read_file(test::source_directory() / "docs/recipes.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) places = places_of(line);
    if (!line.starts_with("| `")) continue;
    for (const Place& place : places) keys[place].merge(matches(line.substr(0, line.find('|', 1)), "`([^`]+)`"));
  }
  return keys;
}

/// Every text in the reader's sources that could be a key; `_target_` has to stay away, since it decides on the others.
Names candidates() {
  Names names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_directory() / "src/tessera/config"))
    if (entry.path().extension() == ".cpp") names.merge(matches(test::read_file(entry.path()), "\"([A-Za-z_][A-Za-z_0-9]*)\""));
  names.erase("_target_");
  return names;
}

/// Those that the reader takes in this place: all are given, as null, and what it calls unknown is none.
Names keys_of_reader(const Place& place, Names names) {
  Node tree = Node::map({});
  Node* section = &tree;
  for (const std::string& part : split(place[0], '.')) {
    if (!part.empty()) section = &section->at_or_insert(part, {});
    section->kind = Node::Kind::Map;
  }
  if (place[0].empty()) std::erase_if(names, [](const std::string& name) { return name.starts_with('_'); });  // hold anchors
  for (const std::string& name : names) section->at_or_insert(name, {});
  if (!place[1].empty()) section->at_or_insert(place[1], {}) = Node::scalar(place[2], {});
  try {
    load_recipe(tree, [](std::string_view) { return std::optional<std::string>(); });
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems())
      for (const std::string& unknown : matches(problem.what, "([A-Za-z_0-9]+): (?:unknown key|is not a key of strategy)")) names.erase(unknown);
  }
  return names;
}

TEST(RecipesPage, ListsTheKeysOfEverySection) {
  const Names names = candidates();
  const std::map<Place, Names> page = keys_of_page();
  EXPECT_GE(page.size(), 40U);
  for (auto [place, keys] : page) {
    keys.erase("_target_");
    EXPECT_EQ(keys, keys_of_reader(place, names)) << place[0] << " with " << place[1] << " " << place[2];
  }
}

}  // namespace
}  // namespace tessera::config
