#include "tessera/core/memory.h"

#if defined(__GLIBC__) || __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <climits>
#include <fstream>
#include <string>

namespace tessera {

void keep_freed_memory() {
#if defined(M_MMAP_THRESHOLD) && defined(M_TRIM_THRESHOLD)
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most glibc takes
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

std::uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

double to_gib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

}  // namespace tessera
