#pragma once

#include <string_view>

namespace tessera {

/// Tessera's own version, "0.1.0".
std::string_view version();

}  // namespace tessera
