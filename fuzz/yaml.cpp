#include <optional>
#include <string>
#include <string_view>

#include "target.h"
#include "tessera/config/node.h"
#include "tessera/config/recipe.h"

// A recipe from nowhere: the tree, its typed form, and no environment to interpolate from.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    tessera::config::Node tree = tessera::config::parse_yaml(tessera::fuzz::text_of(data, size), "recipe.yaml");
    tessera::config::to_json(tree);
    tessera::config::load_recipe(std::move(tree), [](std::string_view) { return std::optional<std::string>(); });
  });
}
