#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/model/decoder.h"
#include "tessera/ops/tape.h"

namespace tessera::loss {

struct LossSum {
  double sum = 0.0;              ///< of the negative log-likelihoods of the valid labels (natural logarithm)
  std::int64_t num_labels = 0;   ///< labels that are not −100
};

/// Cross-entropy of the head's logits against `labels_N` (int64, already shifted, −100 ignored). Logits exist one chunk of tokens at a time.
/// When the tape records, the gradient of `gradient_scale · sum` is computed on the way (pass 1 / global number of valid labels) and backward
/// starts from it: call tape.backward() afterwards.
LossSum linear_cross_entropy(ops::Tape& tape, const ops::Variable& hidden_ND, const model::HeadView& head, const at::Tensor& labels_N, double gradient_scale);

}  // namespace tessera::loss
