#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// The checkpoint and tokenizer files of llama2.c (its first, headerless "version 0" export). Layout: export.py and run.c of
/// https://github.com/karpathy/llama2.c.
namespace tessera::formats {

struct Llama2cConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  bool tie_word_embeddings = true;

  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

/// One float32 tensor of the file under its Hugging Face name. The rows of q_proj and k_proj are in Meta's interleaved rotary order.
struct Llama2cTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;             ///< byte offset in the file
  std::int64_t interleaved_heads = 0;  ///< number of heads for q_proj and k_proj, otherwise 0
};

struct Llama2cHeader {
  Llama2cConfig config;
  std::vector<Llama2cTensor> tensors;  ///< in the order of their bytes
};

/// Checks a whole checkpoint: plausible sizes, and exactly the bytes they call for. Throws UserError that starts with `where`.
Llama2cHeader parse_llama2c_header(std::span<const std::byte> file, const std::string& where);
Llama2cHeader read_llama2c_header(const std::filesystem::path& path);

struct Llama2cTokenizer {
  struct Token {
    std::string bytes;  ///< as stored: "<0x0A>" for byte tokens, a leading space where SentencePiece has U+2581
    float score = 0;
  };
  std::int64_t max_token_length = 0;
  std::vector<Token> tokens;  ///< by id; their number is the vocabulary's size
};

/// A tokenizer .bin: max_token_length, then score, length and bytes of every token up to the end of the file. Throws UserError that starts with
/// `where`.
Llama2cTokenizer parse_llama2c_tokenizer(std::span<const std::byte> file, const std::string& where);
Llama2cTokenizer read_llama2c_tokenizer(const std::filesystem::path& path);

}  // namespace tessera::formats
