#include "tessera/data/tokenizer/tokenizer_json.h"

#include "target.h"
#include "tokenizer_use.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly(
      [&] { tessera::fuzz::use_tokenizer(tessera::data::parse_tokenizer_json(tessera::fuzz::text_of(data, size), "tokenizer.json")); });
}
