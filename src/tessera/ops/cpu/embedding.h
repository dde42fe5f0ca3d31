#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// output[t, :] = table[ids[t] - first_id, :] * scale; zeros for ids outside [first_id, first_id + vocabulary): a slice of the table
/// under tensor parallelism. A scale of 1 copies bits; any other product is rounded to T once.
template <class T>
struct EmbeddingForward {
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;  ///< rows of `table`
  std::int64_t first_id = 0;
  const std::int64_t* ids = nullptr;  ///< [tokens]
  const T* table = nullptr;           ///< [vocabulary, width]
  float scale = 1.0f;
  T* output = nullptr;  ///< [tokens, width]
};
template <class T>
void embedding_forward(const EmbeddingForward<T>& args, Isa isa = best_isa());

/// table_gradient[ids[t] - first_id, :] += output_gradient[t, :] * scale, in token order for each row whatever the number of threads.
/// Ids outside the slice contribute nothing.
template <class T>
struct EmbeddingBackward {
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;
  std::int64_t first_id = 0;
  const std::int64_t* ids = nullptr;
  const T* output_gradient = nullptr;  ///< [tokens, width]
  float scale = 1.0f;
  float* table_gradient = nullptr;  ///< [vocabulary, width]
};
template <class T>
void embedding_backward(const EmbeddingBackward<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
