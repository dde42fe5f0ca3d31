#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/byte_trie.h"
#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/token_table.h"

namespace tessera::data {

/// The unigram language model: of all ways to cut a word into tokens the most probable one (Viterbi). Immutable; many threads, each with its own
/// scratch. Unknown characters cost ten less than the rarest token; a run of them is one unk, or their bytes' tokens with byte_fallback.
class UnigramModel {
 public:
  struct Node {
    double score;
    std::int64_t begin;  ///< where the token that ends here begins; −1 while none does
    TokenId id;
  };
  struct Scratch {
    std::vector<Node> nodes;
    std::vector<std::size_t> ends;
  };

  explicit UnigramModel(const ModelDefinition& model);
  void encode(std::string_view word, std::vector<TokenId>& ids, Scratch& scratch) const;

 private:
  void best_paths(std::string_view word, std::vector<Node>& nodes) const;
  void append(std::string_view token, std::vector<TokenId>& ids) const;

  ByteTrie trie_;
  TokenTable tokens_;
  std::vector<double> scores_;
  double unk_score_;
  TokenId unk_;  ///< −1: there is none, and unknown characters vanish
  bool byte_fallback_;
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace tessera::data
