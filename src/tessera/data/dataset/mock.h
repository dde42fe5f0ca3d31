#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/dataset.h"

namespace tessera::data {

/// AutoModel's MockIterableDataset: rows of uniformly random tokens, each predicting the next (the last position is ignored).
struct MockTokensOptions {
  std::int64_t num_samples = 1'000'000;
  std::int64_t seq_length = 1024;
  std::int64_t vocab_size = 1024;
  std::uint64_t seed = 0;
};

class MockTokensDataset final : public Dataset {
 public:
  explicit MockTokensDataset(MockTokensOptions options) : options_(options) {}
  std::int64_t size() const override { return options_.num_samples; }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  MockTokensOptions options_;
};

/// AutoModel's build_unpacked_dataset: sentences of normally distributed length over a toy vocabulary (0 pad, 1 end of sentence, words above).
struct MockSentencesOptions {
  std::int64_t num_sentences = 10;
  double mean_length = 20.0;
  double deviation = 6.0;
  std::int64_t vocab_size = 100;
  std::int64_t max_length = 64;  ///< words; the end-of-sentence token comes on top
  std::uint64_t seed = 0;
};

/// Labels are the next tokens, as for every dataset (AutoModel's mock gives the inputs themselves).
class MockSentencesDataset final : public Dataset {
 public:
  explicit MockSentencesDataset(MockSentencesOptions options) : options_(options) {}
  std::int64_t size() const override { return options_.num_sentences; }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  MockSentencesOptions options_;
};

/// AutoModel's build_packed_dataset: blocks of exactly `block_size` tokens, filled with sentences like those above as documents, the last one cut.
struct MockPackedOptions {
  std::int64_t num_blocks = 10;
  std::int64_t block_size = 128;
  MockSentencesOptions sentences = {};
};

class MockPackedDataset final : public Dataset {
 public:
  explicit MockPackedDataset(MockPackedOptions options) : options_(options) {}
  std::int64_t size() const override { return options_.num_blocks; }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  MockPackedOptions options_;
};

}  // namespace tessera::data
