#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

std::uint64_t hash_bytes(std::string_view bytes);

/// From byte strings to ids: open addressing over one pool of bytes. Built once, then read by many threads.
class TokenTable {
 public:
  TokenTable() : TokenTable(0) {}
  explicit TokenTable(std::size_t expected);
  /// A key given again gets the new id.
  void insert(std::string_view key, TokenId id);
  /// −1 when absent.
  TokenId find(std::string_view key) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = -1;
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  std::size_t slot_of(std::string_view key, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::size_t num_keys_ = 0;
  std::string pool_;
};

/// From (left, right) to what the pair merges into: open addressing. Built once, then read by many threads.
class MergeTable {
 public:
  struct Entry {
    std::uint32_t rank;
    TokenId merged;
  };
  static constexpr std::uint32_t kNoRank = ~0U;

  explicit MergeTable(std::size_t num_merges);
  void insert(TokenId left, TokenId right, Entry entry);
  /// `rank` is kNoRank when the pair does not merge.
  Entry find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = index_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].entry;
      if (slots_[i].key == kEmpty) return {kNoRank, -1};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~0ULL;  // ids are never negative
  struct Slot {
    std::uint64_t key = kEmpty;
    Entry entry{kNoRank, -1};
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t index_of(std::uint64_t key) const { return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_); }

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

}  // namespace tessera::data
