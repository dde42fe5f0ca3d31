#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/token_table.h"

namespace tessera::data {

/// WordPiece: the longest token the word begins with, then the longest continuing one, and so on; unk when a stretch has none.
class WordPieceModel {
 public:
  explicit WordPieceModel(const ModelDefinition& model);
  void encode(std::string_view word, std::vector<TokenId>& ids, std::string& scratch) const;

 private:
  TokenTable tokens_;
  TokenId unk_;
  std::string prefix_;
  std::size_t max_characters_;
};

/// WordLevel: a word is a token or unk (and nothing without one).
class WordLevelModel {
 public:
  explicit WordLevelModel(const ModelDefinition& model);
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  TokenTable tokens_;
  TokenId unk_;
};

}  // namespace tessera::data
