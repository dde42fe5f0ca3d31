#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// SentencePiece's precompiled character map: a double-array trie (darts-clone) from character sequences to offsets into a pool of zero-terminated
/// replacements. Layout: u32 size of the trie in bytes, the trie's units (u32 each), the pool; little-endian.
class Charsmap {
 public:
  /// An empty map changes nothing.
  Charsmap() = default;
  /// UserError starting with `where` when the sizes contradict each other. Wrong trie units can lead to wrong text, never outside the map.
  Charsmap(std::string_view bytes, const std::string& where);

  /// Replaces whole grapheme clusters of up to five bytes, else their single characters: what tokenizer.json's "Precompiled" does.
  std::string normalize(std::string_view text) const;

 private:
  /// The replacement of the shortest prefix of `key` that is mapped (tokenizers' rule); false when there is none.
  bool find(std::string_view key, std::string_view& replacement) const;

  std::vector<std::uint32_t> units_;
  std::string pool_;
};

/// Decodes tokenizer.json's base64 form. UserError on characters that are not base64.
Charsmap parse_charsmap(std::string_view base64, const std::string& where);

}  // namespace tessera::data
