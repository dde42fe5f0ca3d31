#pragma once

#include <cstdint>

#include "tessera/train/objects.h"

namespace tessera::train {

struct ValidationResult {
  double loss = 0.0;  ///< mean over the set's valid labels
  std::int64_t num_label_tokens = 0;
};

/// One pass over a validation set, without gradients and dropout. `stop` is asked between batches; a pass it ends early reports what it saw.
ValidationResult validate(const model::CausalLM& model, ValidationSet& set, const std::function<bool()>& stop);

}  // namespace tessera::train
