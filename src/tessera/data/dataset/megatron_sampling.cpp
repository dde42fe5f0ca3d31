#include "tessera/data/dataset/megatron_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/config/split.h"
#include "tessera/core/error.h"
#include "tessera/core/numpy_random.h"

namespace tessera::data {
namespace {

using Length = std::function<std::int64_t(std::int64_t)>;

/// Below this share of an epoch, the last one is not mixed with the others.
constexpr double kSeparateBelow = 0.80;

struct Epochs {
  std::int64_t count = 1;
  std::int64_t tokens_per_epoch = 0;
  std::optional<std::int64_t> samples_before_last;  ///< set when the last epoch stays apart
};

Epochs plan_epochs(const SamplingRequest& request, std::int64_t tokens_per_epoch) {
  Epochs epochs{.tokens_per_epoch = tokens_per_epoch, .samples_before_last = std::nullopt};
  if (!request.num_samples) return epochs;
  const std::int64_t needed = *request.num_samples * request.seq_length + 1;
  epochs.count = std::max<std::int64_t>(1, (needed + tokens_per_epoch - 1) / tokens_per_epoch);
  if (epochs.count == 1) return epochs;
  const std::int64_t before_last = ((epochs.count - 1) * tokens_per_epoch - 1) / request.seq_length;
  const std::int64_t per_epoch = (tokens_per_epoch - 1) / request.seq_length;
  if (*request.num_samples - before_last < static_cast<std::int64_t>(kSeparateBelow * static_cast<double>(per_epoch)))
    epochs.samples_before_last = before_last;
  return epochs;
}

/// Appends `count` epochs of the documents, shuffled together.
void append_documents(const SamplingRequest& request, std::int64_t count, NumpyRandomState& random, std::vector<std::int32_t>& documents) {
  const auto begin = std::ssize(documents);
  for (std::int64_t epoch = 0; epoch < count; ++epoch)
    for (std::int64_t document = request.first_document; document < request.end_document; ++document)
      documents.push_back(static_cast<std::int32_t>(document));
  random.shuffle(std::span(documents).subspan(static_cast<std::size_t>(begin)));
}

/// Sample s begins at token s · seq_length, which lies in a document that has tokens; the first begins with the first document.
std::vector<std::int64_t> sample_starts(const std::vector<std::int32_t>& documents, const Length& length, std::int64_t seq_length,
                                        std::int64_t num_samples) {
  std::vector<std::int64_t> starts = {0, 0};
  starts.reserve(static_cast<std::size_t>(2 * (num_samples + 1)));
  std::int64_t document_begin = 0;  // tokens before the document
  std::int64_t sample = 1;
  for (std::size_t entry = 0; entry < documents.size() && sample <= num_samples; ++entry) {
    const std::int64_t document_end = document_begin + length(documents[entry]);
    for (; sample <= num_samples && sample * seq_length < document_end; ++sample) {
      starts.push_back(static_cast<std::int64_t>(entry));
      starts.push_back(sample * seq_length - document_begin);
    }
    document_begin = document_end;
  }
  return starts;
}

void append_shuffled(std::int64_t begin, std::int64_t end, NumpyRandomState& random, std::vector<std::int64_t>& shuffle) {
  const auto at = shuffle.size();
  for (std::int64_t sample = begin; sample < end; ++sample) shuffle.push_back(sample);
  random.shuffle(std::span(shuffle).subspan(at));
}

std::array<double, 3> split_shares(std::string_view split) {
  const auto parsed = config::parse_shares(split);
  if (!parsed)
    throw UserError(
        {"", fmt::format("split: '{}' is not up to three shares", split), "shares of training, validation and test", "for example 900,50,50"});
  std::array<double, 3> shares = *parsed;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (!(sum > 0.0))
    throw UserError({"", fmt::format("split: '{}' sums to zero", split), "shares of training, validation and test", "for example 900,50,50"});
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

MegatronSampling sample_documents(const SamplingRequest& request, const Length& length) {
  TESSERA_ASSERT(request.seq_length > 0, "samples have tokens");
  std::int64_t tokens_per_epoch = 0;
  for (std::int64_t document = request.first_document; document < request.end_document; ++document) tokens_per_epoch += length(document);
  if (tokens_per_epoch <= request.seq_length) {
    throw UserError({"",
                     fmt::format("{} documents with {} tokens make no sample of {} + 1 tokens", request.end_document - request.first_document,
                                 tokens_per_epoch, request.seq_length),
                     "a split has at least seq_length + 1 tokens", "use a smaller seq_length, or give the split a larger share"});
  }
  const Epochs epochs = plan_epochs(request, tokens_per_epoch);
  NumpyRandomState random(request.seed);
  MegatronSampling sampling;
  append_documents(request, epochs.samples_before_last ? epochs.count - 1 : epochs.count, random, sampling.documents);
  if (epochs.samples_before_last) append_documents(request, 1, random, sampling.documents);
  const std::int64_t num_samples = (epochs.count * tokens_per_epoch - 1) / request.seq_length;
  sampling.samples = sample_starts(sampling.documents, length, request.seq_length, num_samples);
  const std::int64_t together = epochs.samples_before_last.value_or(num_samples);
  append_shuffled(0, together, random, sampling.shuffle);
  append_shuffled(together, num_samples, random, sampling.shuffle);
  return sampling;
}

std::optional<DocumentRange> documents_of_split(std::string_view split, int which, std::int64_t num_documents) {
  const std::array<double, 3> shares = split_shares(split);
  double begin = 0.0;
  for (int earlier = 0; earlier < which; ++earlier) begin += shares[static_cast<std::size_t>(earlier)];
  const double end = begin + shares[static_cast<std::size_t>(which)];
  if (end <= begin) return std::nullopt;
  // nearbyint rounds halves to even, as Python's round does.
  const auto bound = [&](double share) { return static_cast<std::int64_t>(std::nearbyint(share * static_cast<double>(num_documents))); };
  return DocumentRange{bound(begin), bound(end)};
}

namespace {

/// `size` samples, each from the dataset that is furthest behind its weight; the first of several. `has_more(dataset, taken)`: it may give another.
template <class HasMore>
Blend blend(std::span<const double> weights, std::int64_t size, const HasMore& has_more) {
  std::vector<std::int64_t> taken(weights.size(), 0);
  Blend blend;
  for (std::int64_t index = 0; index < size; ++index) {
    const double so_far = std::max(static_cast<double>(index), 1.0);
    std::size_t furthest = 0;
    double most = std::numeric_limits<double>::lowest();
    for (std::size_t dataset = 0; dataset < weights.size(); ++dataset) {
      if (!has_more(dataset, taken[dataset])) continue;
      const double behind = weights[dataset] * so_far - static_cast<double>(taken[dataset]);
      if (behind > most) {
        most = behind;
        furthest = dataset;
      }
    }
    blend.dataset.push_back(static_cast<std::int16_t>(furthest));
    blend.sample.push_back(taken[furthest]++);
  }
  return blend;
}

}  // namespace

Blend blend_by_weight(std::span<const double> weights, std::int64_t size) {
  return blend(weights, size, [](std::size_t, std::int64_t) { return true; });
}

Blend blend_everything(std::span<const std::int64_t> sizes) {
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::vector<double> weights;
  for (const std::int64_t size : sizes) weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  return blend(weights, total, [&](std::size_t dataset, std::int64_t taken) { return taken < sizes[dataset]; });
}

}  // namespace tessera::data
