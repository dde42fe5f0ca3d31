#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// A token outside the model's own vocabulary, or one that is looked for in the text before anything else happens to it. The fields are those of
/// tokenizer.json's `added_tokens`.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< swallows white space on its left
  bool rstrip = false;       ///< … and on its right
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< left out by decode's `skip_special_tokens`
};

/// BPE: two tokens and what they become. `rank` orders the merges, lowest first; equal ranks are merged from left to right.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
  std::uint32_t rank = 0;
};

enum class ModelKind { Bpe, Unigram, WordPiece, WordLevel };

/// The model section: what turns one pre-tokenized word into ids. Fields that a kind does not use keep their defaults.
struct ModelDefinition {
  ModelKind kind = ModelKind::Bpe;
  std::vector<std::string> tokens;  ///< by id; "" where no token of the model has that id
  std::vector<double> scores;       ///< unigram: log probability of each token
  std::vector<Merge> merges;        ///< bpe
  std::optional<TokenId> unk;
  bool byte_fallback = false;                  ///< bpe, unigram: a character without a token becomes its bytes' tokens "<0x0A>"
  bool fuse_unk = false;                       ///< bpe: a run of unknown characters is one unk
  bool ignore_merges = false;                  ///< bpe: a word that is a token is that token
  std::string continuing_subword_prefix;       ///< bpe, word_piece
  std::string end_of_word_suffix;              ///< bpe
  std::size_t max_input_chars_per_word = 100;  ///< word_piece: longer words are unk
};

/// Everything a tokenizer is, as plain data. Every reader (tokenizer.json, SentencePiece, GGUF, tiktoken, llama2.c) makes one of these, and
/// tokenizer.json is written from it. The four pipeline sections are kept in tokenizer.json's own terms; null when there is none.
struct TokenizerDefinition {
  std::string where;  ///< the file it comes from, for messages
  Json normalizer;
  Json pre_tokenizer;
  ModelDefinition model;
  Json post_processor;
  Json decoder;
  std::vector<AddedToken> added_tokens;

  SpecialTokens special_tokens;
  std::vector<TokenId> end_of_generation;
  std::optional<std::string> chat_template;
};

}  // namespace tessera::data
