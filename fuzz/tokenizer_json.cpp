#include "tessera/data/tokenizer/tokenizer_json.h"

#include "target.h"
#include "tessera/data/tokenizer/tokenizer.h"

// What is accepted must tokenise a short text of many scripts without trouble and decode to valid text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const tessera::data::Tokenizer tokenizer(tessera::data::parse_tokenizer_json(tessera::fuzz::text_of(data, size), "tokenizer.json"));
    const auto ids = tokenizer.encode("Héllo  wörld's 123\n日本 \xF0\x9F\x98\x80<s>\xFF", true);
    tokenizer.decode(ids, false);
  });
}
