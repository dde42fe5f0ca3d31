#include "tessera/core/environment.h"

#include <cstdlib>

namespace tessera {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace tessera
