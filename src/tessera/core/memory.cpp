#include "tessera/core/memory.h"

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

std::uint64_t resident_bytes() { return status_kilobytes("VmRSS:"); }
std::uint64_t peak_resident_bytes() { return status_kilobytes("VmHWM:"); }

}  // namespace tessera
