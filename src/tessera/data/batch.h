#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/labels.h"

namespace tessera::data {

/// The sample number of a row that only keeps data-parallel ranks in step at the end of an epoch: every label is ignored.
inline constexpr std::int64_t kFillerNumber = -1;

/// One training row before padding. `labels[t]` is the target of position t (already shifted), `kIgnoredLabel` where nothing is trained on;
/// both vectors have the same length, at least 1.
struct Sample {
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> labels;
  /// Where documents begin, ascending, the first at 0. Empty: the whole row is one document.
  std::vector<std::int64_t> document_starts = {};
  /// The row is to be padded at least to this length (a dataset with `padding: max_length`).
  std::int64_t padded_length = 0;
  /// What dropout and other per-sample randomness key on. Datasets give their own index; the loader replaces it by
  /// epoch × dataset size + index, so that a sample met again in a later epoch draws new numbers.
  std::int64_t number = 0;
};

/// Rows padded to one length. Matrices are row-major [rows, length].
/// Boundaries are part of the type: code that cannot honour `document_starts` must refuse a batch that has them.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::vector<std::int64_t> input_ids = {};     ///< [rows, length]; the pad id after the real length
  std::vector<std::int64_t> labels = {};        ///< [rows, length]; `kIgnoredLabel` after the real length
  std::vector<std::int64_t> position_ids = {};  ///< [rows, length]; 0, 1, 2, … and from 0 again at each document; 0 in the padding
  std::vector<std::int64_t> lengths = {};       ///< [rows]; real tokens in each row
  std::vector<std::int64_t> numbers = {};       ///< [rows]; `Sample::number`, or `kFillerNumber`
  /// [rows] when any row holds several documents, else empty. Each row: ascending starts, the first 0, the last below its real length.
  std::vector<std::vector<std::int64_t>> document_starts = {};
};

/// Labels that count in the loss.
std::int64_t num_label_tokens(const Batch& batch);
/// Real tokens, padding left out.
std::int64_t num_tokens(const Batch& batch);

}  // namespace tessera::data
