#pragma once

#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/byte_trie.h"
#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/normalizer.h"

namespace tessera::data {

/// A part of a text: an added token, or text between such (id −1).
struct Section {
  std::size_t begin;
  std::size_t end;
  TokenId id;
};

/// Finds added tokens in a text, longest first at the leftmost place, with their lstrip, rstrip and single_word rules. Immutable.
class AddedTokenFinder {
 public:
  /// Those of `tokens` whose `normalized` is as given; with `normalizer` their contents are rewritten by it before they are looked for.
  AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized, const std::vector<NormalizerStep>& normalizer);

  /// Sections that cover `text` (valid UTF-8) in order; none for an empty text.
  std::vector<Section> sections(std::string_view text) const;
  /// Whether a token's spelling stands anywhere in the text, whatever its rules; if not, no part of the text has one either.
  bool spelled_in(std::string_view text) const;

 private:
  bool longest_at(std::string_view text, std::size_t position, std::size_t& length, const AddedToken*& token) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  ///< its ids are indices into tokens_
};

}  // namespace tessera::data
