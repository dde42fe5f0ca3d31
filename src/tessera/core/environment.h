#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view)>;
/// The process's own.
Environment process_environment();

}  // namespace tessera
