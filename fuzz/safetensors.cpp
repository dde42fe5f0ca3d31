#include "tessera/formats/safetensors.h"

#include "target.h"

namespace {

namespace formats = tessera::formats;

/// Every tensor that was accepted lies within the file, is as large as its shape says, and follows its predecessor.
void check(const formats::SafetensorsHeader& header, std::size_t file_size) {
  std::uint64_t position = 0;
  for (const formats::TensorInfo& info : header.tensors) {
    TESSERA_ASSERT(info.begin == position && info.end >= info.begin, "ranges do not follow each other");
    TESSERA_ASSERT(info.num_bytes() == formats::num_bytes(info.spec()), "a range differs from its shape");
    position = info.end;
  }
  TESSERA_ASSERT(header.data_begin + position == file_size, "ranges do not cover the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const formats::SafetensorsHeader header = formats::parse_safetensors_header(tessera::fuzz::bytes_of(data, size), "input.safetensors");
    check(header, size);
    formats::safetensors_header_bytes(header.tensors, header.metadata);
  });
}
