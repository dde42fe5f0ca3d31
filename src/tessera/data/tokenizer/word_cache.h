#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// Remembers the ids of words seen before; natural text repeats most of its words. Bounded: when it is full it is emptied and filled again.
/// For one thread at a time.
class WordCache {
 public:
  WordCache();
  /// Whether the word is known; then `ids` are its ids, valid until the next insert. `hash` is hash_bytes(word).
  bool find(std::string_view word, std::uint64_t hash, std::span<const TokenId>& ids) const;
  /// The word must not be in the cache.
  void insert(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids);
  /// Longer words are not worth remembering.
  static constexpr std::size_t kLongestWord = 64;

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t word_begin = 0;
    std::uint32_t ids_begin = 0;
    std::uint16_t word_size = 0;  ///< 0: free, for no word is empty
    std::uint16_t num_ids = 0;
  };
  std::vector<Slot> slots_;
  std::size_t num_words_ = 0;
  std::string words_;
  std::vector<TokenId> ids_;
};

}  // namespace tessera::data
