#include "tessera/data/dataset/mock.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/random.h"

namespace tessera::data {
namespace {

Sample next_token_sample(std::vector<std::int64_t> tokens, std::int64_t index) {
  Sample sample;
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  sample.labels.push_back(ignored_label);
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

}  // namespace tessera::data
