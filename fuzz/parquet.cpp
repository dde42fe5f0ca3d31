#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "target.h"
#include "tessera/data/dataset/records.h"

// Arrow's own code decodes the file; what is ours is that its refusals become errors, and that its values become JSON.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path file = std::filesystem::temp_directory_path() / ("tessera-fuzz-" + std::to_string(::getpid()) + ".parquet");
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return tessera::fuzz::refuses_cleanly([&] {
    const tessera::data::Records records({file});
    for (std::int64_t index = 0; index < std::min<std::int64_t>(records.size(), 4); ++index) records.record(index);
  });
}
