#include "tessera/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

template <class Id>
void check(std::span<const Id> ids, std::int64_t vocab_size, const std::string& where) {
  // Whole datasets pass through here: two subtractions whose sign tells, and no branch.
  using Bits = std::make_unsigned_t<Id>;
  const auto most = static_cast<Bits>(std::min<std::int64_t>(vocab_size - 1, std::numeric_limits<Id>::max()));
  Bits wrong_bits = 0;
  for (const Id id : ids) wrong_bits |= static_cast<Bits>(id) | (most - static_cast<Bits>(id));
  if (static_cast<Id>(wrong_bits) >= 0) return;
  const Id wrong = *std::ranges::find_if(ids, [&](Id id) { return id < 0 || id >= vocab_size; });
  throw UserError({where, fmt::format("token id {} is outside the model's vocabulary of {}", wrong, vocab_size),
                   "every token needs a row of the embedding", "use the tokenizer that belongs to the model"});
}

}  // namespace

void check_vocabulary(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where) { check(ids, vocab_size, where); }
void check_vocabulary(std::span<const TokenId> ids, std::int64_t vocab_size, const std::string& where) { check(ids, vocab_size, where); }

}  // namespace tessera::data
