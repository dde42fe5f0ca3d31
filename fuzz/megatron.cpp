#include "tessera/formats/megatron.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] { tessera::formats::check_megatron_index(tessera::fuzz::bytes_of(data, size), "fuzz.idx"); });
}
