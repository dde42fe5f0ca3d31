#include "tessera/data/tokenizer/bpe.h"

#include <algorithm>

#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

/// Up to this many symbols, looking through all pairs for the lowest rank is faster than keeping a heap.
constexpr std::size_t kShortWord = 48;

}  // namespace

BpeModel::BpeModel(const ModelDefinition& model, bool reads_bytes)
    : reads_bytes_(reads_bytes),
      byte_fallback_(model.byte_fallback),
      fuse_unk_(model.fuse_unk),
      ignore_merges_(model.ignore_merges),
      unk_(model.unk.value_or(-1)),
      prefix_(model.continuing_subword_prefix),
      suffix_(model.end_of_word_suffix),
      tokens_(model.tokens.size()),
      merges_(model.merges.size()) {
  byte_ids_.fill(-1);
  for (std::size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string& token = model.tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (token.empty()) continue;
    if (reads_bytes) {
      const auto bytes = from_byte_alphabet(token);
      if (!bytes) continue;
      tokens_.insert(*bytes, id);
      if (bytes->size() == 1) byte_ids_[static_cast<unsigned char>(bytes->front())] = id;
    } else {
      tokens_.insert(token, id);
    }
  }
  if (!reads_bytes)
    for (int byte = 0; byte < 256; ++byte) byte_ids_[static_cast<std::size_t>(byte)] = tokens_.find(byte_token(static_cast<unsigned char>(byte)));
  for (const Merge& merge : model.merges) merges_.insert(merge.left, merge.right, {merge.rank, merge.merged});
}

void BpeModel::encode(std::string_view word, std::vector<TokenId>& ids, Scratch& scratch) const {
  if (ignore_merges_) {
    if (const TokenId whole = tokens_.find(word); whole >= 0) return ids.push_back(whole);
  }
  first_symbols(word, scratch);
  if (scratch.symbols.size() <= kShortWord)
    merge_short(scratch);
  else
    merge_long(scratch);
  ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
}

bool BpeModel::append_bytes(std::string_view character, std::vector<TokenId>& symbols) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) >= 0; })) return false;
  for (const char byte : character) symbols.push_back(id_of(byte));
  return true;
}

void BpeModel::first_symbols(std::string_view word, Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  symbols.clear();
  bool unk_pending = false;  // an unk that the next unknown character may still join
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t num_bytes = reads_bytes_ ? 1 : code_point_at(word, i).num_bytes;
    std::string_view character = word.substr(i, num_bytes);
    TokenId id = -1;
    if (reads_bytes_) {
      id = byte_ids_[static_cast<unsigned char>(word[i])];
    } else if (prefix_.empty() && suffix_.empty()) {
      id = tokens_.find(character);
    } else {
      const bool last = i + num_bytes == word.size();
      scratch.spelling.assign(i > 0 ? prefix_ : "").append(character).append(last ? suffix_ : "");
      character = scratch.spelling;
      id = tokens_.find(character);
    }
    i += num_bytes;
    if (id >= 0) {
      symbols.push_back(id);
      unk_pending = false;
    } else if (byte_fallback_ && append_bytes(character, symbols)) {
      unk_pending = false;
    } else if (unk_ >= 0) {
      if (!fuse_unk_ || !unk_pending) symbols.push_back(unk_);
      unk_pending = true;
    }
  }
}

void BpeModel::merge_short(Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  std::vector<Pair>& pairs = scratch.pairs;  // pairs[i] is that of symbols i and i + 1
  pairs.clear();
  const auto pair_at = [&](std::size_t i) {
    const MergeTable::Entry entry = merges_.find(symbols[i], symbols[i + 1]);
    return Pair{entry.rank, entry.merged};
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) pairs.push_back(pair_at(i));
  while (!pairs.empty()) {
    const auto best = std::min_element(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.rank < b.rank; });
    if (best->rank == MergeTable::kNoRank) return;
    const auto i = static_cast<std::size_t>(best - pairs.begin());
    symbols[i] = best->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    pairs.erase(best);
    if (i < pairs.size()) pairs[i] = pair_at(i);
    if (i > 0) pairs[i - 1] = pair_at(i - 1);
  }
}

void BpeModel::merge_long(Scratch& scratch) const {
  std::vector<Symbol>& list = scratch.list;
  std::vector<Candidate>& heap = scratch.heap;
  constexpr TokenId kGone = -1;
  const auto later = [](const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.position > b.position; };
  const auto push = [&](std::int32_t position) {
    const Symbol& left = list[static_cast<std::size_t>(position)];
    if (left.next < 0) return;
    const TokenId right = list[static_cast<std::size_t>(left.next)].id;
    const MergeTable::Entry entry = merges_.find(left.id, right);
    if (entry.rank == MergeTable::kNoRank) return;
    heap.push_back({entry.rank, position, left.id, right, entry.merged});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  list.clear();
  heap.clear();
  const auto size = static_cast<std::int32_t>(scratch.symbols.size());
  for (std::int32_t i = 0; i < size; ++i) list.push_back({scratch.symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < size ? i + 1 : -1});
  for (std::int32_t i = 0; i + 1 < size; ++i) push(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = list[static_cast<std::size_t>(best.position)];
    // A candidate is stale when one of its symbols has become part of another.
    if (left.id != best.left || left.next < 0 || list[static_cast<std::size_t>(left.next)].id != best.right) continue;
    Symbol& right = list[static_cast<std::size_t>(left.next)];
    left.id = best.merged;
    left.next = right.next;
    right.id = kGone;
    if (right.next >= 0) list[static_cast<std::size_t>(right.next)].previous = best.position;
    push(best.position);
    if (left.previous >= 0) push(left.previous);
  }
  scratch.symbols.clear();
  for (std::int32_t i = 0; i >= 0; i = list[static_cast<std::size_t>(i)].next) scratch.symbols.push_back(list[static_cast<std::size_t>(i)].id);
}

}  // namespace tessera::data
