#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tessera/config/sections/output.h"

namespace tessera::config {

/// What `checkpoint.verify` may be in recipes, and --verify on the command line.
const std::vector<std::pair<std::string_view, CheckpointVerify>>& verifications();

}  // namespace tessera::config
