#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// What the samples of a dataset are like, from at most `most` of them, spread evenly.
struct DatasetSummary {
  std::int64_t num_samples = 0;            ///< of the dataset
  std::int64_t num_measured = 0;           ///< looked at
  std::int64_t num_tokens = 0;             ///< of those
  std::int64_t num_trained = 0;            ///< of those, tokens that are trained on: labels that count
  std::int64_t num_documents = 0;          ///< of those; more than samples where samples are packs
  std::vector<std::int64_t> lengths = {};  ///< tokens of each, ascending
};
DatasetSummary summarize(const Dataset& dataset, std::int64_t most, int num_threads);

/// Samples with [begin, end) tokens.
struct LengthBin {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count = 0;
};
/// About `num_bins` bins of equal width, a round number, from the shortest to the longest. `lengths` ascend and are not empty.
std::vector<LengthBin> length_histogram(const std::vector<std::int64_t>& lengths, std::int64_t num_bins);

/// Consecutive tokens of a sample that are all trained on, or all not.
struct SampleSpan {
  std::string text;
  bool trained = false;
};
/// A sample as text, with what is trained on apart from what is only read. Tokens are written as ids when there is no tokenizer.
std::vector<SampleSpan> sample_spans(const Sample& sample, const Tokenizer* tokenizer);

}  // namespace tessera::data
