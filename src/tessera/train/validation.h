#pragma once

#include <cstdint>

#include "tessera/train/objects.h"

namespace tessera::train {

struct ValidationResult {
  double loss = 0.0;  ///< mean over the set's valid labels
  std::int64_t num_label_tokens = 0;
};

/// One pass over a validation set, without gradients and dropout, over all ranks. `stop`, which must answer the same at every rank, is asked between
/// batches; a pass it ends early reports what it saw.
ValidationResult validate(const parallel::CausalLM& model, ValidationSet& set, const std::function<bool()>& stop);

}  // namespace tessera::train
