#include "tessera/data/dataset/mock.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/random.h"

namespace tessera::data {
namespace {

Sample next_token_sample(std::vector<std::int64_t> tokens, std::int64_t index) {
  Sample sample;
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  sample.labels.push_back(kIgnoredLabel);
  sample.input_ids = std::move(tokens);
  sample.number = index;
  return sample;
}

}  // namespace

Sample MockTokensDataset::sample(std::int64_t index) const {
  const CounterRandom random(options_.seed, "mock tokens", static_cast<std::uint64_t>(index));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(options_.seq_length));
  for (std::size_t t = 0; t < tokens.size(); ++t)
    tokens[t] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options_.vocab_size), t));
  return next_token_sample(std::move(tokens), index);
}

std::string MockTokensDataset::description() const {
  return fmt::format("{} rows of {} random tokens below {}", options_.num_samples, options_.seq_length, options_.vocab_size);
}

Sample MockSentencesDataset::sample(std::int64_t index) const {
  constexpr std::int64_t end_of_sentence = 1;
  constexpr std::int64_t first_word = 2;
  const CounterRandom lengths(options_.seed, "mock sentence lengths", static_cast<std::uint64_t>(index));
  const CounterRandom words(options_.seed, "mock sentence words", static_cast<std::uint64_t>(index));
  const auto drawn = static_cast<std::int64_t>(options_.mean_length + options_.deviation * lengths.normal(0));
  const std::int64_t length = std::max<std::int64_t>(1, std::min(options_.max_length, drawn));
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < length; ++t) {
    tokens.push_back(first_word + static_cast<std::int64_t>(
                                      words.below(static_cast<std::uint64_t>(options_.vocab_size - first_word), static_cast<std::uint64_t>(t))));
  }
  tokens.push_back(end_of_sentence);
  return next_token_sample(std::move(tokens), index);
}

std::string MockSentencesDataset::description() const {
  return fmt::format("{} random sentences of about {} tokens below {}", options_.num_sentences, options_.mean_length, options_.vocab_size);
}

Sample MockPackedDataset::sample(std::int64_t index) const {
  // No two blocks share a sentence: a sentence has at least two tokens.
  const std::int64_t first_sentence = index * options_.block_size;
  const MockSentencesDataset sentences(options_.sentences);
  Sample block;
  block.number = index;
  for (std::int64_t sentence = first_sentence; std::ssize(block.input_ids) < options_.block_size; ++sentence) {
    const Sample document = sentences.sample(sentence);
    const auto length = std::min(std::ssize(document.input_ids), options_.block_size - std::ssize(block.input_ids));
    block.document_starts.push_back(std::ssize(block.input_ids));
    block.input_ids.insert(block.input_ids.end(), document.input_ids.begin(), document.input_ids.begin() + length);
    block.labels.insert(block.labels.end(), document.labels.begin(), document.labels.begin() + length);
  }
  return block;
}

std::string MockPackedDataset::description() const {
  return fmt::format("{} blocks of {} tokens of random sentences", options_.num_blocks, options_.block_size);
}

}  // namespace tessera::data
