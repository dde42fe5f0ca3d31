#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/model/decoder.h"
#include "tessera/ops/linear_cross_entropy.h"

namespace tessera::loss {

using ops::LossSum;

/// Runs the model on `inputs` and sums the cross-entropy of its logits against `labels_BT` (int64, already shifted, −100 ignored). When the tape
/// records, the gradient of `gradient_scale · sum` is seeded (pass 1 / valid labels of the whole step) and tape.backward() may follow.
LossSum causal_language_model(ops::Tape& tape, const model::Decoder& decoder, const model::Inputs& inputs, const at::Tensor& labels_BT,
                              double gradient_scale, std::uint64_t step = 0);

}  // namespace tessera::loss
