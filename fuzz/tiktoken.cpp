#include "tessera/formats/tiktoken.h"

#include "target.h"
#include "tessera/data/tokenizer/sources.h"
#include "tokenizer_use.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const std::string_view text = tessera::fuzz::text_of(data, size);
    tessera::formats::looks_like_tiktoken(text);
    tessera::fuzz::use_tokenizer(tessera::data::from_tiktoken(text, "tokenizer.tiktoken"));
  });
}
