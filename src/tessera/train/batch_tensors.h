#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/data/batch.h"
#include "tessera/model/inputs.h"

namespace tessera::train {

/// A batch as the model takes it.
struct BatchTensors {
  model::Inputs inputs;
  at::Tensor labels_BT;  ///< int64, already shifted, −100 ignored
};

/// Copies the batch into tensors.
BatchTensors to_tensors(const data::Batch& batch);

}  // namespace tessera::train
