#pragma once

#include "tessera/ops/cpu/kernels/simd.h"

/// Small fp32 matrix products for attention tiles: C[m, n] (+)= A[m, d] · B[d, n] with C and A and B in cache, n a multiple of kLanes.
/// A block of kMicroRows × kMicroVectors vectors of C stays in registers while d runs.
namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

inline constexpr int kMicroRows = 6;
#if defined(__AVX512F__)
inline constexpr int kMicroVectors = 4;  // 24 sums + 4 of B of 32 registers
#else
inline constexpr int kMicroVectors = 2;  // 12 sums + 2 of B of 16 registers
#endif

/// A[i, k] stands at data[i * row_stride + k * depth_stride]: a transposed matrix is read in place.
struct LeftMatrix {
  const float* data;
  std::int64_t row_stride;
  std::int64_t depth_stride;
};
/// Rows of contiguous numbers.
struct RightMatrix {
  const float* data;
  std::int64_t row_stride;
};
struct ResultMatrix {
  float* data;
  std::int64_t row_stride;
};

template <int rows, int vectors, bool accumulate>
void micro_gemm(LeftMatrix a, RightMatrix b, std::int64_t depth, ResultMatrix c) {
  Vec sums[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[i][v] = accumulate ? load(c.data + i * c.row_stride + v * kLanes) : Vec{};
  }
  const float* left = a.data;
  const float* right = b.data;
  for (std::int64_t k = 0; k < depth; ++k, left += a.depth_stride, right += b.row_stride) {
    Vec row_of_b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) row_of_b[v] = load(right + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const Vec factor = broadcast(left[i * a.row_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[i][v] += factor * row_of_b[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(c.data + i * c.row_stride + v * kLanes, sums[i][v]);
  }
}

template <int vectors, bool accumulate>
void micro_gemm_rows(std::int64_t rows, LeftMatrix a, RightMatrix b, std::int64_t depth, ResultMatrix c) {
  static_assert(kMicroRows == 6);
  switch (rows) {
    case 1:
      return micro_gemm<1, vectors, accumulate>(a, b, depth, c);
    case 2:
      return micro_gemm<2, vectors, accumulate>(a, b, depth, c);
    case 3:
      return micro_gemm<3, vectors, accumulate>(a, b, depth, c);
    case 4:
      return micro_gemm<4, vectors, accumulate>(a, b, depth, c);
    case 5:
      return micro_gemm<5, vectors, accumulate>(a, b, depth, c);
    default:
      return micro_gemm<6, vectors, accumulate>(a, b, depth, c);
  }
}

/// C[rows, vectors * kLanes] (+)= A · B.
template <bool accumulate>
void small_gemm(std::int64_t rows, std::int64_t vectors, std::int64_t depth, LeftMatrix a, RightMatrix b, ResultMatrix c) {
  for (std::int64_t i = 0; i < rows; i += kMicroRows) {
    const std::int64_t block = rows - i < kMicroRows ? rows - i : kMicroRows;
    const LeftMatrix left{a.data + i * a.row_stride, a.row_stride, a.depth_stride};
    for (std::int64_t v = 0; v < vectors; v += kMicroVectors) {
      const RightMatrix right{b.data + v * kLanes, b.row_stride};
      const ResultMatrix result{c.data + i * c.row_stride + v * kLanes, c.row_stride};
      const std::int64_t panel = vectors - v;
      if (panel >= kMicroVectors) {
        micro_gemm_rows<kMicroVectors, accumulate>(block, left, right, depth, result);
      } else if (panel == 1) {
        micro_gemm_rows<1, accumulate>(block, left, right, depth, result);
      } else if (panel == 2) {
        micro_gemm_rows<2, accumulate>(block, left, right, depth, result);
      } else {
        micro_gemm_rows<3, accumulate>(block, left, right, depth, result);
      }
    }
  }
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
