#include "tessera/core/memory.h"

#if defined(__GLIBC__) || __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <climits>
#include <fstream>
#include <string>

namespace tessera {
namespace {

std::uint64_t status_kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t value = 0;
    if (word == key && status >> value) return value * 1024;
  }
  return 0;
}

}  // namespace

void keep_freed_memory() {
#if defined(M_MMAP_THRESHOLD) && defined(M_TRIM_THRESHOLD)
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most glibc takes
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

std::uint64_t resident_bytes() { return status_kilobytes("VmRSS:"); }
std::uint64_t peak_resident_bytes() { return status_kilobytes("VmHWM:"); }

double to_gib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

}  // namespace tessera
