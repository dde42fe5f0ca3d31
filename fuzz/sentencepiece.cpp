#include "tessera/formats/sentencepiece.h"

#include "target.h"
#include "tessera/data/tokenizer/sources.h"
#include "tokenizer_use.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const auto model = tessera::formats::parse_sentencepiece_model(tessera::fuzz::text_of(data, size), "tokenizer.model");
    tessera::fuzz::use_tokenizer(tessera::data::from_sentencepiece(model, {}, "tokenizer.model"));
  });
}
