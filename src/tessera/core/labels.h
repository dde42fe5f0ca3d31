#pragma once

#include <cstdint>

namespace tessera {

/// The label of a position that teaches nothing: no loss and no gradient.
inline constexpr std::int64_t kIgnoredLabel = -100;

}  // namespace tessera
