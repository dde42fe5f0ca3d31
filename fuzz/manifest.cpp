#include "tessera/checkpoint/manifest.h"

#include <string>

#include "target.h"

// The end of a manifest is a hash of the rest, which no mutation would hit: the input is the rest. What is accepted can be written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    namespace checkpoint = tessera::checkpoint;
    const std::string text = checkpoint::sealed(tessera::fuzz::text_of(data, size));
    const std::string again = checkpoint::to_text(checkpoint::manifest_from_text(text, "manifest.json"));
    TESSERA_ASSERT(checkpoint::to_text(checkpoint::manifest_from_text(again, "again")) == again, "a manifest changed in a round trip");
  });
}
