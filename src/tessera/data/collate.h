#pragma once

#include <cstdint>
#include <span>

#include "tessera/data/batch.h"

namespace tessera::data {

/// How samples become one padded batch (AutoModel's default_collater).
struct CollateOptions {
  std::int64_t pad_id = 0;
  /// The batch's length is rounded up to a multiple of this (pad_seq_len_divisible).
  std::int64_t pad_multiple = 1;
  /// When positive, every batch has exactly this length; a longer sample is a UserError.
  std::int64_t fixed_length = 0;
};

/// Pads on the right to the longest sample (then to the multiple or the fixed length). At least one sample. The result takes over the memory of
/// `spent`, a batch no longer needed.
Batch collate(std::span<const Sample> samples, const CollateOptions& options, Batch spent = {});
/// A batch of one row that teaches nothing: one pad token, every label ignored, number `kFillerNumber`.
Batch filler_batch(const CollateOptions& options);

}  // namespace tessera::data
