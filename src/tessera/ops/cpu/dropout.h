#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Counter-based dropout: whether an element is kept is a pure function of (key, sample, place, position, element), so the mask is the same
/// however the work is split, and the backward pass recomputes it. `place` distinguishes uses within a layer: a head for attention.
/// The 64-bit row key mixes everything but the element (splitmix64's finalizer, Steele et al. 2014); a 32-bit integer hash
/// (xor-shift-multiply, the "lowbias32" constants found by C. Wellons' search) makes the element's word from it.
/// Always inlined: the kernels use these too, and no copy compiled for wide instructions may serve other callers.
[[gnu::always_inline]] inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
[[gnu::always_inline]] inline std::uint64_t dropout_row_key(std::uint64_t key, std::uint64_t sample, std::uint64_t place, std::uint64_t position) {
  return mix64(mix64(mix64(key ^ mix64(sample)) ^ place) ^ position);
}
/// Word is std::uint32_t, or a vector of them: of several elements.
template <class Word>
[[gnu::always_inline]] inline Word dropout_word(std::uint64_t row_key, Word element) {
  Word x = static_cast<std::uint32_t>(row_key) + element * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x ^= static_cast<std::uint32_t>(row_key >> 32);
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}
/// An element is kept when dropout_word(...) >= dropout_threshold(probability), and is then multiplied by 1 / (1 - probability).
[[gnu::always_inline]] inline std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

/// output = residual + dropout(input); residual may be null; outputs may coincide with inputs. Row r's mask is that of row_keys[r].
/// The backward pass of the input is this with residual null and input = output_gradient. 0 <= probability < 1.
template <class T>
struct DropoutAdd {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const T* input = nullptr;                 ///< [rows, width]
  const T* residual = nullptr;              ///< [rows, width]
  const std::uint64_t* row_keys = nullptr;  ///< [rows], from dropout_row_key; unused when probability is 0
  std::uint32_t first_element = 0;          ///< of column 0: the global one when the width is split over ranks
  float probability = 0.0f;
  T* output = nullptr;
};
template <class T>
void dropout_add(const DropoutAdd<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
