#pragma once

#include "tessera/ops/cpu/kernels/simd.h"

namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

inline QuadVec load_quad(const float* address) { return load_bits<QuadVec>(address, Full{}); }
typedef std::uint16_t HalfQuad __attribute__((vector_size(8)));
typedef std::uint32_t UintQuad __attribute__((vector_size(16)));
inline QuadVec load_quad(const bfloat16* address) {
  return bit_cast<QuadVec>(__builtin_convertvector(load_bits<HalfQuad>(address, Full{}), UintQuad) << 16);
}

/// Four rows by four columns, transposed in registers.
template <class T>
inline void transpose_4x4(const T* source, std::int64_t source_stride, float* target, std::int64_t target_stride) {
  const QuadVec a = load_quad(source);
  const QuadVec b = load_quad(source + source_stride);
  const QuadVec c = load_quad(source + 2 * source_stride);
  const QuadVec d = load_quad(source + 3 * source_stride);
  const QuadVec ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const QuadVec ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const QuadVec cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const QuadVec cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_bits(target, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), Full{});
  store_bits(target + target_stride, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), Full{});
  store_bits(target + 2 * target_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), Full{});
  store_bits(target + 3 * target_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), Full{});
}

/// target[c, i] = source[i, c] as fp32, for `rows` rows of `width` columns.
template <class T>
inline void transpose(const T* source, std::int64_t source_stride, std::int64_t rows, std::int64_t width, float* target, std::int64_t target_stride) {
  const std::int64_t whole_rows = rows / 4 * 4;
  const std::int64_t whole_width = width / 4 * 4;
  for (std::int64_t i = 0; i < whole_rows; i += 4) {
    for (std::int64_t c = 0; c < whole_width; c += 4)
      transpose_4x4(source + i * source_stride + c, source_stride, target + c * target_stride + i, target_stride);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t c = i < whole_rows ? whole_width : 0; c < width; ++c) target[c * target_stride + i] = to_float(source[i * source_stride + c]);
  }
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
