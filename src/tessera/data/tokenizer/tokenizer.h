#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

using TokenId = std::int32_t;

/// The tokens that have a job. Absent ones are nullopt, except that padding falls back to `eos`.
struct SpecialTokens {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  std::optional<TokenId> unk;
};

/// How many ids `encode` puts before and after a text when it adds special tokens: always the same.
struct FrameSize {
  std::size_t before = 0;
  std::size_t after = 0;
};

/// A text's ids, and how many ids its beginning has by itself.
struct PrefixedEncoding {
  std::vector<TokenId> ids;
  std::size_t prefix_size = 0;
};

struct TokenizerDefinition;
struct TokenizerEngine;

/// Text to token ids and back. An immutable value: copies are cheap (they share the tables) and every member may be called from many threads at once.
class Tokenizer {
 public:
  /// Checks the definition and builds the lookup tables. UserError when the definition contradicts itself.
  explicit Tokenizer(TokenizerDefinition definition);

  /// Token ids of UTF-8 `text` (invalid bytes count as U+FFFD). Special tokens spelled in the text become their ids; `add_special_tokens` also puts
  /// the tokenizer's own BOS/EOS and the like around it (the post-processor of tokenizer.json).
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const;
  /// `encode(text, add_special_tokens)`, and the size of `encode` of the first `prefix_bytes` bytes without special tokens. What the two have in
  /// common is computed once, where it can be separated: the words that a pattern cuts from the beginning whatever follows.
  PrefixedEncoding encode_with_prefix(std::string_view text, std::size_t prefix_bytes, bool add_special_tokens) const;
  FrameSize frame_size() const;
  /// The text of `ids`, always valid UTF-8: bytes of unfinished characters come out as U+FFFD. Ids without a token (an embedding may have more rows
  /// than the vocabulary) add nothing.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  /// One more than the largest id, added tokens included. A model's embedding may have more rows.
  std::size_t vocab_size() const;
  /// The token's own spelling (byte-level tokens in their printable alphabet); nullopt when there is no such id or token.
  std::optional<std::string> token(TokenId id) const;
  std::optional<TokenId> id(std::string_view token) const;
  bool is_special(TokenId id) const;
  /// Whether the token is one byte of a character, as SentencePiece spells those that have no token ("<0x0A>").
  bool continues_character(TokenId id) const;

  const SpecialTokens& special_tokens() const;
  /// Every id that ends a generation: `eos` and what generation_config.json, config.json or GGUF add (end-of-turn tokens). Sorted, no doubles.
  const std::vector<TokenId>& end_of_generation() const;
  /// The Jinja text of the chat template, when the tokenizer brings one.
  const std::optional<std::string>& chat_template() const;
  /// The spelling of a special token, "" when there is none: what templates call bos_token and eos_token.
  std::string spelling(std::optional<TokenId> id) const;

  const TokenizerDefinition& definition() const;

 private:
  std::shared_ptr<const TokenizerEngine> engine_;
};

/// Turns a stream of ids into text as it grows: `push` returns the new text, holding back the bytes of a character that is not finished;
/// `finish` returns what is still held back. The pieces joined are equal to `decode` of all ids. Keeps a reference to the tokenizer's tables.
class IncrementalDecoder {
 public:
  IncrementalDecoder(Tokenizer tokenizer, bool skip_special_tokens);
  std::string push(TokenId id);
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<TokenId> window_;  ///< ids whose text was returned, for context, and those whose text is held back
  std::size_t num_context_ = 0;  ///< of the first kind
  std::size_t emitted_ = 0;      ///< bytes of the text of the first kind
};

/// Reads a tokenizer from
///   - a model directory: tokenizer.json, else tokenizer.model; with tokenizer_config.json, special_tokens_map.json, chat_template.jinja,
///     generation_config.json and config.json for special tokens and the chat template;
///   - a tokenizer.json, a SentencePiece .model, a tiktoken rank file, a .gguf, or a llama2.c tokenizer .bin.
/// UserError when there is none, when it is broken, or when it uses something that is not supported (named).
Tokenizer load_tokenizer(const std::filesystem::path& path);

/// Writes tokenizer.json, tokenizer_config.json (with the chat template) and special_tokens_map.json into a directory that exists, so that
/// `load_tokenizer` and Hugging Face transformers read the same tokenizer back, wherever it came from. `model_max_length` is the model's context
/// length; 0 leaves it out. Each file is replaced whole; Failure when writing fails.
void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& directory, std::size_t model_max_length);

}  // namespace tessera::data
