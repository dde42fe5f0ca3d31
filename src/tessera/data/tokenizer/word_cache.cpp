#include "tessera/data/tokenizer/word_cache.h"

#include <cstring>

namespace tessera::data {
namespace {

constexpr std::size_t kNumSlots = std::size_t{1} << 16;
constexpr std::size_t kMostWords = kNumSlots / 2;

}  // namespace

WordCache::WordCache() : slots_(kNumSlots) {}

bool WordCache::find(std::string_view word, std::uint64_t hash, std::span<const TokenId>& ids) const {
  for (std::size_t i = hash % kNumSlots; slots_[i].word_size != 0; i = (i + 1) % kNumSlots) {
    const Slot& slot = slots_[i];
    if (slot.hash != hash || slot.word_size != word.size() || std::memcmp(words_.data() + slot.word_begin, word.data(), word.size()) != 0) continue;
    ids = std::span(ids_).subspan(slot.ids_begin, slot.num_ids);
    return true;
  }
  return false;
}

void WordCache::insert(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
  if (num_words_ == kMostWords) {
    slots_.assign(kNumSlots, {});
    words_.clear();
    ids_.clear();
    num_words_ = 0;
  }
  std::size_t i = hash % kNumSlots;
  while (slots_[i].word_size != 0) i = (i + 1) % kNumSlots;
  slots_[i] = {hash, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(word.size()),
               static_cast<std::uint16_t>(ids.size())};
  words_.append(word);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++num_words_;
}

}  // namespace tessera::data
