#include "tessera/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

template <class Id>
void check(std::span<const Id> ids, std::int64_t vocab_size, const std::string& where) {
  Id least = 0, largest = 0;
  for (const Id id : ids) {  // without branches: whole datasets pass through here
    least = std::min(least, id);
    largest = std::max(largest, id);
  }
  const std::int64_t wrong = least < 0 ? least : largest;
  if (wrong >= 0 && wrong < vocab_size) return;
  throw UserError({where, fmt::format("token id {} is outside the model's vocabulary of {}", wrong, vocab_size),
                   "every token needs a row of the embedding", "use the tokenizer that belongs to the model"});
}

}  // namespace

void check_vocabulary(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where) { check(ids, vocab_size, where); }
void check_vocabulary(std::span<const TokenId> ids, std::int64_t vocab_size, const std::string& where) { check(ids, vocab_size, where); }

}  // namespace tessera::data
