#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::data {

/// How Megatron-LM draws samples of seq_length + 1 tokens from documents (megatron/core/datasets/gpt_dataset.py): documents are laid end to end in
/// shuffled order, for as many epochs as the samples need; sample s begins at token s · seq_length; samples are shuffled.
struct MegatronSampling {
  std::vector<std::int32_t> documents;  ///< in the order they are laid out, epoch after epoch
  /// [num_samples + 1, 2]: the entry of `documents` in which a sample begins, and the offset there. The next entry is where it ends, inclusively.
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> shuffle;  ///< which sample is handed out n-th

  std::int64_t size() const { return static_cast<std::int64_t>(shuffle.size()); }
};

struct SamplingRequest {
  std::int64_t first_document = 0;  ///< the split's documents
  std::int64_t end_document = 0;
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> num_samples = std::nullopt;  ///< at least this many are made, over several epochs if need be; without it, one epoch's
  std::uint32_t seed = 1234;
};

/// The same numbers as Megatron-LM for the same documents, seed and lengths. `length(document)`: its tokens. UserError when the documents hold fewer
/// tokens than one sample needs.
MegatronSampling sample_documents(const SamplingRequest& request, const std::function<std::int64_t(std::int64_t)>& length);

/// One split of "900,50,50" (train, validation, test) as documents [begin, end); nothing when its share is 0. UserError for shares that are no
/// numbers or sum to zero.
struct DocumentRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
std::optional<DocumentRange> documents_of_split(std::string_view split, int which, std::int64_t num_documents);

/// Which dataset each sample of a blend comes from, and which of its samples.
struct Blend {
  std::vector<std::int16_t> dataset;
  std::vector<std::int64_t> sample;
};
/// `size` samples, each from the dataset that is furthest behind its weight (Megatron-LM's build_blending_indices). Weights sum to 1.
Blend blend_by_weight(std::span<const double> weights, std::int64_t size);
/// Every sample of every dataset, evenly mixed (build_exhaustive_blending_indices).
Blend blend_everything(std::span<const std::int64_t> sizes);

}  // namespace tessera::data
