#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// UserError naming `where` (may be empty) when an embedding of `vocab_size` rows has none for one of the ids.
void check_vocabulary(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where);
void check_vocabulary(std::span<const TokenId> ids, std::int64_t vocab_size, const std::string& where);

}  // namespace tessera::data
