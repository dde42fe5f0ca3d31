#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "target.h"
#include "tessera/data/dataset/records.h"

// The first byte says what kind of file the rest is. Records of JSON are also looked at by their columns, without reading the rest of them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string stem = (std::filesystem::temp_directory_path() / ("tessera-fuzz-" + std::to_string(::getpid()))).string();
  constexpr std::array kEndings = {".csv", ".tsv", ".jsonl", ".json"};
  if (size == 0) return 0;
  const std::filesystem::path file = stem + kEndings[data[0] % kEndings.size()];
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  return tessera::fuzz::refuses_cleanly([&] {
    const tessera::data::Records records({file});
    const std::array<std::string, 2> columns = {"a", "b"};
    for (std::int64_t index = 0; index < std::min<std::int64_t>(records.size(), 8); ++index) {
      records.record(index);
      records.texts(index, columns);
    }
  });
}
