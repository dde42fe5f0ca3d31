#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/core/error.h"

namespace tessera::fuzz {

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) { return std::as_bytes(std::span(data, size)); }
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// Runs a reader on hostile input: a UserError is the right answer to nonsense, everything else that escapes is a finding.
template <class Action>
int refuses_cleanly(const Action& action) {
  try {
    action();
  } catch (const UserError&) {
  }
  return 0;
}

}  // namespace tessera::fuzz
