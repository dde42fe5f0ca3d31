#include "tessera/data/summary.h"

#include <algorithm>
#include <optional>

#include "tessera/core/error.h"
#include "tessera/data/dataset/for_each_index.h"

namespace tessera::data {

DatasetSummary summarize(const Dataset& dataset, std::int64_t most, int num_threads) {
  struct Measured {
    std::int64_t tokens = 0, trained = 0, documents = 0;
  };
  DatasetSummary summary{.num_samples = dataset.size(), .num_measured = std::min(most, dataset.size())};
  std::vector<Measured> measured(static_cast<std::size_t>(summary.num_measured));
  for_each_index(summary.num_measured, num_threads, "measuring samples", [&](std::int64_t index) {
    const Sample sample = dataset.sample(index * summary.num_samples / summary.num_measured);
    const auto trained = std::ranges::count_if(sample.labels, [](std::int64_t label) { return label != kIgnoredLabel; });
    measured[static_cast<std::size_t>(index)] = {std::ssize(sample.input_ids), trained,
                                                 std::max<std::int64_t>(1, std::ssize(sample.document_starts))};
  });
  for (const Measured& sample : measured) {
    summary.num_tokens += sample.tokens;
    summary.num_trained += sample.trained;
    summary.num_documents += sample.documents;
    summary.lengths.push_back(sample.tokens);
  }
  std::ranges::sort(summary.lengths);
  return summary;
}

std::vector<LengthBin> length_histogram(const std::vector<std::int64_t>& lengths, std::int64_t num_bins) {
  TESSERA_ASSERT(!lengths.empty() && num_bins >= 1, "a histogram has lengths and bins");
  const std::int64_t range = lengths.back() - lengths.front() + 1;
  std::int64_t width = 1;  // 1, 2, 5, 10, 20, 50, …
  for (int step = 0; width * num_bins < range; ++step) width = step % 3 == 1 ? width / 2 * 5 : width * 2;
  std::vector<LengthBin> bins;
  for (const std::int64_t length : lengths) {
    const std::int64_t begin = length / width * width;
    if (bins.empty()) bins.push_back({begin, begin + width, 0});
    while (bins.back().end <= length) bins.push_back({bins.back().end, bins.back().end + width, 0});
    ++bins.back().count;
  }
  return bins;
}

std::vector<SampleSpan> sample_spans(const Sample& sample, const Tokenizer* tokenizer) {
  std::vector<SampleSpan> spans;
  const auto add = [&](const std::string& text, bool trained) {
    if (spans.empty() || spans.back().trained != trained) spans.push_back({"", trained});
    spans.back().text += text;
  };
  std::optional<IncrementalDecoder> decoder;
  if (tokenizer != nullptr) decoder.emplace(*tokenizer, false);
  const auto add_token = [&](std::int64_t token, bool trained) {
    add(decoder ? decoder->push(static_cast<TokenId>(token)) : std::to_string(token) + " ", trained);
  };
  // labels[t] is the token after position t: the last one is not among the inputs.
  for (std::size_t t = 0; t < sample.input_ids.size(); ++t) add_token(sample.input_ids[t], t > 0 && sample.labels[t - 1] == sample.input_ids[t]);
  if (sample.labels.back() != kIgnoredLabel) add_token(sample.labels.back(), true);
  if (decoder) add(decoder->finish(), spans.back().trained);
  return spans;
}

}  // namespace tessera::data
