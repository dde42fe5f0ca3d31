#pragma once

#include <cstdint>

namespace tessera::formats {

/// Bytes of a safetensors file at the most, as transformers has it.
inline constexpr std::uint64_t kDefaultMaxShardSize = 5'000'000'000;

}  // namespace tessera::formats
