#pragma once

#include <cstdint>

#include "tessera/core/labels.h"
#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// A chunk of raw logits x. The logits proper are z = softcap(x * scale), softcap(u) = cap * tanh(u / cap); cap 0 means none.
/// The chunk may be a slice of the vocabulary: column c is token first_id + c.
template <class T>
struct LogitsChunk {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  T* logits = nullptr;
  std::int64_t row_stride = 0;
  float scale = 1.0f;
  float softcap = 0.0f;
  const std::int64_t* targets = nullptr;  ///< [rows]; kIgnoredLabel: no loss, zero gradient
  std::int64_t first_id = 0;
};

/// Building blocks for a vocabulary slice. Ignored rows are computed like the others except where said.
/// row_max[r] = max over the slice of z (NaN if there is one).
template <class T>
void logits_row_max(const LogitsChunk<T>& chunk, float* row_max, Isa isa = best_isa());
/// row_sum[r] = sum over the slice of exp(z - row_max[r]); row_max may be larger than the slice's own maximum (the global one).
template <class T>
void logits_row_sum_exp(const LogitsChunk<T>& chunk, const float* row_max, float* row_sum, Isa isa = best_isa());
/// target_logit[r] = z at the target, or 0 when the target is ignored or in another slice.
template <class T>
void logits_target(const LogitsChunk<T>& chunk, float* target_logit, Isa isa = best_isa());
/// Overwrites x by d(loss)/dx * gradient_scale, given lse[r] = log-sum-exp of the whole row: (exp(z - lse) - [c is the target]) * dz/dx.
/// Rows with an ignored target become zeros.
template <class T>
void logits_gradient(const LogitsChunk<T>& chunk, const float* lse, float gradient_scale, Isa isa = best_isa());

/// All of the above over a whole vocabulary in two passes over each row. Returns the sum of -log softmax(z)[target] over valid rows (fp64, fixed
/// order). `write_gradient` overwrites x by the gradient * gradient_scale. A valid target outside [0, columns) makes the loss NaN: check ids where
/// they are read.
template <class T>
struct CrossEntropy {
  LogitsChunk<T> chunk;
  bool write_gradient = true;
  float gradient_scale = 1.0f;
};
template <class T>
double cross_entropy(const CrossEntropy<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
