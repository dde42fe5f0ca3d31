#include "tessera/core/json.h"

#include "target.h"

// What parses must survive a round trip, in both orders of keys.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const std::string_view text = tessera::fuzz::text_of(data, size);
    const tessera::Json json = tessera::parse_json(text, "input.json");
    TESSERA_ASSERT(tessera::parse_json(json.dump(), "again") == json, "a JSON document changed in a round trip");
    const tessera::OrderedJson ordered = tessera::parse_ordered_json(text, "input.json");
    TESSERA_ASSERT(tessera::parse_json(ordered.dump(), "again") == json, "the ordered document differs");
  });
}
