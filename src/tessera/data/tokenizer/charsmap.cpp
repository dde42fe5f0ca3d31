#include "tessera/data/tokenizer/charsmap.h"

#include <cstring>

#include "tessera/core/base64.h"
#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

// The fields of a darts-clone unit.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31 | 0xFF); }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
std::uint32_t leaf_value(std::uint32_t unit) { return unit & ((1U << 31) - 1); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  if (bytes.empty()) return;
  std::uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  if (bytes.size() < sizeof trie_bytes || trie_bytes > bytes.size() - sizeof trie_bytes || trie_bytes % 4 != 0)
    throw UserError({where, "the precompiled character map is truncated", "", kDamagedTokenizer});
  units_.resize(trie_bytes / 4);
  if (trie_bytes > 0) std::memcpy(units_.data(), bytes.data() + sizeof trie_bytes, trie_bytes);
  pool_ = bytes.substr(sizeof trie_bytes + trie_bytes);
}

bool Charsmap::find(std::string_view key, std::string_view& replacement) const {
  if (units_.empty()) return false;
  bool found = false;
  std::uint32_t node = offset(units_[0]);
  for (const char byte : key) {
    if (byte == '\0') break;
    node ^= static_cast<unsigned char>(byte);
    if (node >= units_.size() || label(units_[node]) != static_cast<unsigned char>(byte)) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset(units_[node]);
    if (!leaf || node >= units_.size()) continue;
    const std::uint32_t start = leaf_value(units_[node]);
    if (start >= pool_.size() || found) continue;
    const std::string_view rest = std::string_view(pool_).substr(start);
    replacement = rest.substr(0, rest.find('\0'));
    found = true;
  }
  return found;
}

std::string Charsmap::normalize(std::string_view text) const {
  if (units_.empty()) return std::string(text);
  constexpr std::size_t kLongestWholeCluster = 5;
  std::string result;
  std::size_t begin = 0;
  std::string_view replacement;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kLongestWholeCluster && find(cluster, replacement)) {
      result.append(replacement);
      continue;
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, code_point_at(cluster, i).num_bytes);
      result.append(find(character, replacement) ? replacement : character);
      i += character.size();
    }
  }
  // The pool comes from the file: what it spells need not be valid.
  return replace_invalid_utf8(result);
}

Charsmap parse_charsmap(std::string_view base64, const std::string& where) {
  const auto bytes = base64_decode(base64);
  if (!bytes) throw UserError({where, "precompiled_charsmap is not valid base64", "", kDamagedTokenizer});
  return {*bytes, where};
}

}  // namespace tessera::data
