#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/token_table.h"

namespace tessera::data {

/// Byte-pair encoding of one word: starts from its characters (or bytes) and merges the pair of lowest rank, leftmost first, until none is left.
/// Immutable; may be used from many threads, each with its own scratch.
class BpeModel {
 public:
  struct Pair {
    std::uint32_t rank;
    TokenId merged;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    TokenId left, right, merged;
  };
  struct Symbol {
    TokenId id;
    std::int32_t previous, next;
  };
  /// Working memory, kept between words.
  struct Scratch {
    std::vector<TokenId> symbols;
    std::vector<Pair> pairs;
    std::vector<Symbol> list;
    std::vector<Candidate> heap;
    std::string spelling;
  };

  /// `reads_bytes`: words are raw bytes and the tokens are spelled in GPT-2's byte alphabet. The definition has been checked.
  BpeModel(const ModelDefinition& model, bool reads_bytes);
  /// Appends the ids of a word that is not empty.
  void encode(std::string_view word, std::vector<TokenId>& ids, Scratch& scratch) const;

 private:
  void first_symbols(std::string_view word, Scratch& scratch) const;
  bool append_bytes(std::string_view character, std::vector<TokenId>& symbols) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  bool reads_bytes_;
  bool byte_fallback_;
  bool fuse_unk_;
  bool ignore_merges_;
  TokenId unk_;  ///< −1 when there is none
  std::string prefix_;
  std::string suffix_;
  TokenTable tokens_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_{};  ///< reads_bytes: the token of each byte; otherwise of each "<0x0A>"
};

}  // namespace tessera::data
