#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// How hidden states become logits: logits = soft_cap · tanh(hidden · weightᵀ / (divisor · soft_cap)), without the cap hidden · weightᵀ / divisor.
struct LogitsOptions {
  double divisor = 1.0;
  std::optional<double> soft_cap = {};
};

struct LossSum {
  double sum = 0.0;             ///< of the negative log-likelihoods (natural logarithm) of the valid labels
  std::int64_t num_labels = 0;  ///< labels that are not −100
};

/// Where the head's weight holds a slice of the vocabulary only.
struct VocabularySlice {
  std::int64_t first_id = 0;  ///< the token of row 0
  std::int64_t num_ids = 0;   ///< rows past them are padding: they count nowhere and get no gradient
  /// From this slice's log-sum-exp and target logit (0 when the target is elsewhere) of each row, [2, rows] in fp64, those of the whole vocabulary.
  /// Every rank calls it for the same rows.
  std::function<at::Tensor(const at::Tensor&)> combine;
};

/// Cross-entropy of a vocabulary projection that never holds all the logits: a chunk of tokens at a time is projected, turned into its loss and,
/// when the tape records, into the gradients of `gradient_scale · sum` on the spot. hidden [N, D], weight [V, D], labels int64 [N] in [0, V) or −100;
/// tokens without a label cost nothing. Products in the weight's dtype, which hidden states are cast to; softmax and sums in fp32 and fp64.
/// tape.backward() then goes on from the hidden states' gradient. With a `slice` the weight is that slice [V', D], the loss is that of the whole
/// vocabulary, and the hidden states' gradient is this slice's share of it.
LossSum linear_cross_entropy(Tape& tape, const Variable& hidden_ND, Parameter& weight, const LogitsOptions& options, const at::Tensor& labels_N,
                             double gradient_scale, const VocabularySlice* slice = nullptr);

/// Rows of the chunks that it works in, of `rows` with a label: for estimates of memory.
std::int64_t loss_chunk_rows(std::int64_t rows, std::int64_t vocabulary);

/// The logits themselves, [N, V] in fp32 (fp64 for fp64 weights): for generation and for comparing with goldens. Not recorded.
at::Tensor logits(const at::Tensor& hidden_ND, const Parameter& weight, const LogitsOptions& options);

}  // namespace tessera::ops
