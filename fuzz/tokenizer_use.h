#pragma once

#include <utility>

#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::fuzz {

/// What a reader accepts must build, tokenise a short text of several scripts and decode it again.
inline void use_tokenizer(data::TokenizerDefinition definition) {
  const data::Tokenizer tokenizer(std::move(definition));
  const auto ids = tokenizer.encode("Héllo  wörld's 123\n日本 \xF0\x9F\x98\x80<s>\xFF", true);
  tokenizer.decode(ids, false);
}

}  // namespace tessera::fuzz
