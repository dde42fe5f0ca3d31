#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {
namespace {

using test::read_file;
using test::shared_data;

/// The texts of a ggml vocabulary test: separated by a line of their own.
std::vector<std::string> inputs(const std::string& text) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<TokenId> numbers(const std::string& line) {
  std::vector<TokenId> ids;
  for (const std::string& word : split(line, ' '))
    if (!word.empty()) ids.push_back(std::stoi(word));
  return ids;
}

void expect_vectors(const Tokenizer& tokenizer, const std::string& name) {
  const auto texts = inputs(read_file(shared_data("data/tokenizer_vectors/" + name + ".gguf.inp")));
  const auto lines = split(read_file(shared_data("data/tokenizer_vectors/" + name + ".gguf.out")), '\n');
  ASSERT_EQ(texts.size(), 47);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(tokenizer.encode(texts[i], false), numbers(lines[i])) << i << ": " << texts[i];
}

TEST(TokenizerVectors, Gpt2Gguf) {
  const auto path = shared_data("data/tokenizer_vectors/ggml-vocab-gpt-2.gguf");
  TESSERA_SKIP_WITHOUT(path);
  expect_vectors(load_tokenizer(path), "ggml-vocab-gpt-2");
}

TEST(TokenizerVectors, Gpt2FromRanks) {
  const auto path = shared_data("data/tokenizers/gpt2.tiktoken");
  TESSERA_SKIP_WITHOUT(path);
  expect_vectors(load_tokenizer(path), "ggml-vocab-gpt-2");
}

TEST(TokenizerVectors, LlamaGguf) {
  const auto path = shared_data("data/tokenizer_vectors/ggml-vocab-llama-spm.gguf");
  TESSERA_SKIP_WITHOUT(path);
  expect_vectors(load_tokenizer(path), "ggml-vocab-llama-spm");
}

TEST(TokenizerVectors, LlamaSentencePiece) {
  const auto path = shared_data("data/tokenizers/llama2.tokenizer.model");
  TESSERA_SKIP_WITHOUT(path);
  expect_vectors(load_tokenizer(path), "ggml-vocab-llama-spm");
}

TEST(TokenizerVectors, Qwen) {
  const auto path = shared_data("data/tokenizers/qwen3.tokenizer.json");
  TESSERA_SKIP_WITHOUT(path);
  expect_vectors(load_tokenizer(path), "ggml-vocab-qwen2");
}

}  // namespace
}  // namespace tessera::data
