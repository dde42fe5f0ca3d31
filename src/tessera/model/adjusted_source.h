#pragma once

#include <memory>
#include <vector>

#include "tessera/formats/tensor_source.h"

namespace tessera::model {

/// How a tensor of another format differs from its Hugging Face form.
struct Adjustment {
  bool transposed = false;  ///< the other format has [rows, columns] the other way round
  double added = 0.0;       ///< a constant to add to every value (gemma's norm weights: −1)
};

/// Shows the tensors of `source` (same names) adjusted, one adjustment for each of source->tensors(). Values to which a constant is added become F32
/// where they were narrower. A transposed tensor is read whole whenever rows of it are asked for.
std::unique_ptr<formats::TensorSource> adjust_tensors(std::unique_ptr<formats::TensorSource> source, std::vector<Adjustment> adjustments);

}  // namespace tessera::model
