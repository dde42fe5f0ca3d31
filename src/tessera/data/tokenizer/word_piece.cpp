#include "tessera/data/tokenizer/word_piece.h"

#include <algorithm>

namespace tessera::data {
namespace {

TokenTable table_of(const ModelDefinition& model) {
  TokenTable table(model.tokens.size());
  for (std::size_t i = 0; i < model.tokens.size(); ++i)
    if (!model.tokens[i].empty()) table.insert(model.tokens[i], static_cast<TokenId>(i));
  return table;
}

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

WordPieceModel::WordPieceModel(const ModelDefinition& model)
    : tokens_(table_of(model)),
      unk_(model.unk.value_or(-1)),
      prefix_(model.continuing_subword_prefix),
      max_characters_(model.max_input_chars_per_word) {}

void WordPieceModel::encode(std::string_view word, std::vector<TokenId>& ids, std::string& scratch) const {
  const std::size_t first_id = ids.size();
  bool known = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), starts_character)) <= max_characters_;
  for (std::size_t begin = 0; known && begin < word.size();) {
    scratch.assign(begin > 0 ? prefix_ : "").append(word.substr(begin));
    TokenId id = -1;
    std::size_t end = word.size();
    while (end > begin && (id = tokens_.find(scratch)) < 0) {
      do {
        --end;
        scratch.pop_back();
      } while (end > begin && !starts_character(word[end]));
    }
    known = id >= 0;
    if (known) ids.push_back(id);
    begin = end;
  }
  if (known) return;
  ids.resize(first_id);
  if (unk_ >= 0) ids.push_back(unk_);
}

WordLevelModel::WordLevelModel(const ModelDefinition& model) : tokens_(table_of(model)), unk_(model.unk.value_or(-1)) {}

void WordLevelModel::encode(std::string_view word, std::vector<TokenId>& ids) const {
  const TokenId id = tokens_.find(word);
  if (id >= 0 || unk_ >= 0) ids.push_back(id >= 0 ? id : unk_);
}

}  // namespace tessera::data
