#include "tessera/data/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::data {
namespace {

/// The rule as it is defined: again and again the pair of lowest rank, the leftmost one.
std::vector<TokenId> merged_plainly(std::vector<TokenId> symbols, const std::vector<Merge>& merges) {
  while (true) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      for (const Merge& merge : merges)
        if (merge.left == symbols[i] && merge.right == symbols[i + 1] && (best == nullptr || merge.rank < best->rank)) {
          best = &merge;
          at = i;
        }
    if (best == nullptr) return symbols;
    symbols[at] = best->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

/// Three letters and random merges of what is there already.
ModelDefinition random_model(std::mt19937& random, bool shared_ranks) {
  ModelDefinition model;
  model.tokens = {"a", "b", "c"};
  for (std::uint32_t rank = 0; rank < 40; ++rank) {
    const std::size_t left = random() % model.tokens.size();
    const std::size_t right = random() % model.tokens.size();
    const std::string whole = model.tokens[left] + model.tokens[right];
    const auto found = std::find(model.tokens.begin(), model.tokens.end(), whole);
    const auto merged = static_cast<TokenId>(found - model.tokens.begin());
    if (found == model.tokens.end()) model.tokens.push_back(whole);
    // SentencePiece ranks a merge by what it makes.
    model.merges.push_back(
        {static_cast<TokenId>(left), static_cast<TokenId>(right), merged, shared_ranks ? static_cast<std::uint32_t>(merged) : rank});
  }
  return model;
}

TEST(BpeModel, EqualsThePlainRuleInShortAndLongWords) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    ModelDefinition model = random_model(random, round % 2 == 0);
    // A pair given twice has its last rank, as in tokenizer.json.
    std::vector<Merge> unique;
    for (const Merge& merge : model.merges) {
      std::erase_if(unique, [&](const Merge& other) { return other.left == merge.left && other.right == merge.right; });
      unique.push_back(merge);
    }
    const BpeModel bpe(model, false);
    BpeModel::Scratch scratch;
    for (const std::size_t size : {1, 2, 7, 48, 49, 50, 130}) {
      std::string word;
      std::vector<TokenId> letters;
      for (std::size_t i = 0; i < size; ++i) {
        letters.push_back(static_cast<TokenId>(random() % 3));
        word += static_cast<char>('a' + letters.back());
      }
      std::vector<TokenId> ids;
      bpe.encode(word, ids, scratch);
      EXPECT_EQ(ids, merged_plainly(letters, unique)) << word;
    }
  }
}

}  // namespace
}  // namespace tessera::data
