#pragma once

#include <cstdint>

namespace tessera {

/// Bytes of this process in memory at most so far (VmHWM of /proc/self/status); 0 where unknown.
std::uint64_t peak_resident_bytes();
/// In GiB (2^30 bytes).
double to_gib(std::uint64_t bytes);

/// Tells the C library to keep freed memory for the next allocation instead of returning it to the kernel, which would hand it back page by page,
/// zeroed: training frees and allocates the same activations every step, and clearing pages was a sixth of its time. For the whole process.
void keep_freed_memory();

}  // namespace tessera
