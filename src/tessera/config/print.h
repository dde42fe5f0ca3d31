#pragma once

#include <string>

#include "tessera/config/node.h"

namespace tessera::config {

/// The tree as YAML text that reads back as the same tree, for `check` and for the checkpoint's config.yaml. Placeholders are written as they stood
/// in the recipe, never their value; values of secret keys (is_secret), unless they are one ${…}, become "******".
std::string print_yaml(const Node& root);

}  // namespace tessera::config
