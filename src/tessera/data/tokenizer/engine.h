#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "tessera/data/tokenizer/added_tokens.h"
#include "tessera/data/tokenizer/bpe.h"
#include "tessera/data/tokenizer/decoder.h"
#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/normalizer.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/pre_tokenizer.h"
#include "tessera/data/tokenizer/unigram.h"
#include "tessera/data/tokenizer/word_cache.h"
#include "tessera/data/tokenizer/word_piece.h"

namespace tessera::data {

/// One thread's working memory while it encodes.
struct EncodeScratch {
  WordCache cache;
  BpeModel::Scratch bpe;
  UnigramModel::Scratch unigram;
  std::string word_piece;
};

/// Hands working memory to whoever encodes and takes it back, so that caches stay warm without belonging to a thread.
class ScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take();
  void give_back(std::unique_ptr<EncodeScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> idle_;
};

/// A definition made ready to run: what Tokenizer's copies share.
struct TokenizerEngine {
  /// Checks the definition: valid UTF-8 spellings, ids within the vocabulary, sections that parse. UserError otherwise.
  explicit TokenizerEngine(TokenizerDefinition source);

  void encode_section(std::string_view text, bool starts_input, std::vector<TokenId>& ids, EncodeScratch& scratch) const;
  void encode_word(std::string_view word, std::vector<TokenId>& ids, EncodeScratch& scratch) const;

  TokenizerDefinition definition;
  std::vector<std::string> spellings;  ///< by id; "" where there is no token
  std::vector<bool> special;           ///< by id
  TokenTable ids;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  const Regex* sole_pattern = nullptr;  ///< of a model that reads bytes: cuts the words, when nothing else does
  bool reads_bytes =
      false;  ///< the pre-tokenizer ends in ByteLevel and the model is BPE: words stay bytes, without the detour by the printable alphabet
  std::variant<BpeModel, UnigramModel, WordPieceModel, WordLevelModel> model;
  SpecialFrame frame;
  std::vector<DecoderStep> decoder;
  std::vector<std::string> byte_level_bytes;  ///< by id, when the decoder is ByteLevel alone: what each token adds to the text
  bool decodes_byte_tokens = false;           ///< the decoder has a ByteFallback step
  AddedTokenFinder raw_finder;                ///< added tokens looked for in the text as it is
  AddedTokenFinder normalized_finder;         ///< … in the normalized text
  mutable ScratchPool scratch_pool;
};

}  // namespace tessera::data
