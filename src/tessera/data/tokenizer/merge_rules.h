#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {

/// A token's bytes as they concatenate, and how early it is merged (lowest first). Only those that can be made by merging or be merged.
struct RankedToken {
  std::string bytes;
  TokenId id = 0;
  std::uint32_t rank = 0;
};

/// The rule of SentencePiece and tiktoken, "merge the two neighbours whose concatenation ranks lowest, leftmost first", as merges: every way to cut
/// a token into two tokens, with the rank of the whole. Sorted by rank, then ids.
std::vector<Merge> merges_of_concatenations(const std::vector<RankedToken>& tokens);

/// GPT-2's rule from spelled merges "left right" in order. UserError starting with `where` when a part is not in the vocabulary.
std::vector<Merge> merges_of_spellings(const std::vector<std::string>& merges, const std::vector<std::string>& vocabulary, const std::string& where);

}  // namespace tessera::data
