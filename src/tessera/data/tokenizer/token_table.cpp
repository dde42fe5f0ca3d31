#include "tessera/data/tokenizer/token_table.h"

#include <bit>
#include <cstring>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

constexpr std::size_t kMinimumSlots = 16;

std::uint64_t load(const char* bytes, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return word;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kA = 0xA0761D6478BD642FULL;
  constexpr std::uint64_t kB = 0xE7037ED1A0B428DBULL;
  std::uint64_t state = bytes.size() ^ kA;
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; data += 8, left -= 8) state = mix(state ^ load(data, 8), kB);
  return mix(state ^ load(data, left), kA ^ kB);
}

TokenTable::TokenTable(std::size_t expected) : slots_(std::bit_ceil(std::max(kMinimumSlots, expected * 2))) {}

std::size_t TokenTable::slot_of(std::string_view key, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = static_cast<std::size_t>(hash) & mask;
  while (slots_[i].id >= 0 && (slots_[i].hash != static_cast<std::uint32_t>(hash >> 32) || slots_[i].size != key.size() ||
                               std::memcmp(pool_.data() + slots_[i].begin, key.data(), key.size()) != 0))
    i = (i + 1) & mask;
  return i;
}

void TokenTable::insert(std::string_view key, TokenId id) {
  TESSERA_ASSERT(id >= 0, "token ids are not negative");
  if (num_keys_ * 2 >= slots_.size()) grow();
  const std::uint64_t hash = hash_bytes(key);
  Slot& slot = slots_[slot_of(key, hash)];
  if (slot.id < 0) {
    slot = {static_cast<std::uint32_t>(hash >> 32), id, static_cast<std::uint32_t>(pool_.size()), static_cast<std::uint32_t>(key.size())};
    pool_.append(key);
    ++num_keys_;
  }
  slot.id = id;
}

TokenId TokenTable::find(std::string_view key) const { return slots_[slot_of(key, hash_bytes(key))].id; }

void TokenTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view key(pool_.data() + slot.begin, slot.size);
    slots_[slot_of(key, hash_bytes(key))] = slot;
  }
}

MergeTable::MergeTable(std::size_t num_merges)
    : slots_(std::bit_ceil(std::max(kMinimumSlots, num_merges * 2))), mask_(slots_.size() - 1), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::insert(TokenId left, TokenId right, Entry entry) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = index_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, entry};
}

}  // namespace tessera::data
