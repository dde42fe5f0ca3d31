#pragma once

#include <cstdint>

namespace tessera {

/// Bytes of this process in memory now and at most so far (VmRSS and VmHWM of /proc/self/status); 0 where unknown.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

}  // namespace tessera
