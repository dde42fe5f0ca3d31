#include "tessera/ops/cpu/expert_gemm.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/micro_gemm.h"
#include "tessera/ops/cpu/kernels/scratch.h"
#include "tessera/ops/cpu/kernels/transpose.h"

/// Suffixes: N rows, O outputs, I inputs.
namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {
namespace {

constexpr std::int64_t kPanel = kMicroVectors * kLanes;  // columns of a tile of sums
constexpr std::int64_t kDepth = 128;                     // of one pass: a panel of this many rows stays in the first cache
constexpr std::int64_t kGroup = 8 * kMicroRows;          // rows of the weight that share the panels of a pass
constexpr std::int64_t kLine = 16;                       // numbers in a cache line

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t panels(std::int64_t columns) { return (columns + kPanel - 1) / kPanel; }

/// What a tile fetches while it computes: rows of `lines` cache lines, one line for every two steps of depth.
struct Ahead {
  const float* data;
  std::int64_t row_stride;
  std::int64_t lines;
};

/// C[6, kPanel] (+)= A · B, with B's rows kPanel apart.
template <bool accumulate>
void fetching_tile(LeftMatrix a, const float* b, std::int64_t depth, ResultMatrix c, Ahead ahead) {
  Vec sums[kMicroRows][kMicroVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kMicroRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kMicroVectors; ++v) sums[i][v] = accumulate ? load(c.data + i * c.row_stride + v * kLanes) : Vec{};
  }
  const auto step = [&] {
    Vec row_of_b[kMicroVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kMicroVectors; ++v) row_of_b[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kMicroRows; ++i) {
      const Vec factor = broadcast(a.data[i * a.row_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kMicroVectors; ++v) sums[i][v] += factor * row_of_b[v];
    }
    a.data += a.depth_stride;
    b += kPanel;
  };
  std::int64_t line = 0, k = 0;
  for (; k + 2 <= depth; k += 2) {
    step();
    __builtin_prefetch(ahead.data + line * kLine, 0, 2);
    if (++line == ahead.lines) {
      line = 0;
      ahead.data += ahead.row_stride;
    }
    step();
  }
  if (k < depth) step();
#pragma GCC unroll 8
  for (int i = 0; i < kMicroRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kMicroVectors; ++v) store(c.data + i * c.row_stride + v * kLanes, sums[i][v]);
  }
}

/// The first `rows` rows of a tile.
void tile(std::int64_t rows, LeftMatrix a, const float* b, std::int64_t depth, ResultMatrix c, Ahead ahead, bool accumulate) {
  if (rows >= kMicroRows) return accumulate ? fetching_tile<true>(a, b, depth, c, ahead) : fetching_tile<false>(a, b, depth, c, ahead);
  const RightMatrix right{b, kPanel};
  accumulate ? micro_gemm_rows<kMicroVectors, true>(rows, a, right, depth, c) : micro_gemm_rows<kMicroVectors, false>(rows, a, right, depth, c);
}

void copy(const float* source, std::int64_t count, float* target) {
  for_vectors(count, [&](std::int64_t at, auto lanes) { store(target + at, load(source + at, lanes), lanes); });
}
/// Numbers past the `count` that are there become zero.
void copy_padded(const float* source, std::int64_t count, float* panel) {
  for (std::int64_t at = 0; at < kPanel; at += kLanes)
    store(panel + at, at + kLanes <= count ? load(source + at) : at < count ? load(source + at, Partial{count - at}) : Vec{});
}

/// Rows [rows, columns] as columns of panels: panel p holds rows p · kPanel …, [columns, kPanel], zero past the last row.
void pack_transposed(const float* rows_data, std::int64_t rows, std::int64_t columns, float* packed) {
  for (std::int64_t first = 0; first < rows; first += kPanel, packed += columns * kPanel) {
    const std::int64_t count = smaller(kPanel, rows - first);
    if (count < kPanel) std::memset(packed, 0, static_cast<std::size_t>(columns * kPanel) * sizeof(float));
    // A cache line of every row at once: the lines that are written stay near.
    for (std::int64_t column = 0; column < columns; column += kLine)
      transpose(rows_data + first * columns + column, columns, count, smaller(kLine, columns - column), packed + column * kPanel, kPanel);
  }
}

/// Columns [first, first + count) of rows as one panel.
void pack_panel(const float* first, std::int64_t rows, std::int64_t count, std::int64_t row_stride, float* panel) {
  for (std::int64_t row = 0; row < rows; ++row) copy_padded(first + row * row_stride, count, panel + row * kPanel);
}

/// Sums are made transposed, [outputs, rows]: the weight's numbers are then the factors, read where they stand.
void expert_forward_kernel(const ExpertForward& args) {
  const std::int64_t I = args.inputs, O = args.outputs, num_panels = panels(args.rows);
  const Scratch packed(num_panels * I * kPanel), sums(num_panels * kGroup * kPanel);
  pack_transposed(args.input, args.rows, I, packed.data());
  for (std::int64_t o = 0; o < O; o += kGroup) {
    const std::int64_t count = smaller(kGroup, O - o);
    const float* const weight = args.weight + o * I;
    for (std::int64_t k = 0; k < I; k += kDepth) {
      const float* const next = k + kDepth < I ? weight + k + kDepth : weight + count * I;
      for (std::int64_t p = 0; p < num_panels; ++p)
        for (std::int64_t q = 0; q < count; q += kMicroRows)
          tile(count - q, {weight + q * I + k, I, 1}, packed.data() + (p * I + k) * kPanel, smaller(kDepth, I - k),
               {sums.data() + (p * kGroup + q) * kPanel, kPanel}, {next + q * I, I, kDepth / kLine}, k > 0);
    }
    for (std::int64_t p = 0; p < num_panels; ++p)
      transpose(sums.data() + p * kGroup * kPanel, kPanel, count, smaller(kPanel, args.rows - p * kPanel), args.output + p * kPanel * O + o, O);
  }
}

/// Rows in groups of kMicroRows, transposed: group g holds rows g · kMicroRows …, [columns, kMicroRows].
void pack_row_groups(const float* rows_data, std::int64_t rows, std::int64_t columns, float* packed) {
  for (std::int64_t first = 0; first < rows; first += kMicroRows, packed += columns * kMicroRows)
    for (std::int64_t column = 0; column < columns; column += kLine)
      transpose(rows_data + first * columns + column, columns, smaller(kMicroRows, rows - first), smaller(kLine, columns - column),
                packed + column * kMicroRows, kMicroRows);
}

/// The part [depth, columns] of the weight that one pass of the input gradient takes: wide, because it is read row by row.
constexpr std::int64_t kWidePanels = 4, kWideColumns = kWidePanels * kPanel, kWideDepth = kDepth / 2;

/// Sums [panel][row] (+)= gradient · packed panels, and the part of the weight at `next` is fetched meanwhile.
void add_wide_pass(std::int64_t rows, const float* gradient_groups, std::int64_t group_size, const float* packed, std::int64_t depth,
                   std::int64_t num_panels, float* sums, Ahead next, bool accumulate) {
  // Only whole tiles fetch.
  const std::int64_t whole_tiles = rows < kMicroRows ? 1 : rows / kMicroRows * num_panels, rows_ahead = (kWideDepth + whole_tiles - 1) / whole_tiles;
  for (std::int64_t p = 0; p < num_panels; ++p)
    for (std::int64_t n = 0; n < rows; n += kMicroRows) {
      tile(rows - n, {gradient_groups + n / kMicroRows * group_size, 1, kMicroRows}, packed + p * kWideDepth * kPanel, depth,
           {sums + (p * rows + n) * kPanel, kPanel}, next, accumulate);
      next.data += rows_ahead * next.row_stride;
    }
}

void expert_input_gradient_kernel(const ExpertInputGradient& args) {
  const std::int64_t I = args.inputs, O = args.outputs;
  const Scratch groups((args.rows + kMicroRows) * O), packed(kWideDepth * kWideColumns), sums(args.rows * kWideColumns);
  pack_row_groups(args.gradient, args.rows, O, groups.data());
  for (std::int64_t i = 0; i < I; i += kWideColumns) {
    const std::int64_t num_panels = panels(smaller(kWideColumns, I - i));
    const auto columns_of = [&](std::int64_t p) { return smaller(kPanel, I - i - p * kPanel); };
    for (std::int64_t o = 0; o < O; o += kWideDepth) {
      const std::int64_t depth = smaller(kWideDepth, O - o);
      const float* const weight = args.weight + o * I + i;
      for (std::int64_t p = 0; p < num_panels; ++p) pack_panel(weight + p * kPanel, depth, columns_of(p), I, packed.data() + p * kWideDepth * kPanel);
      const float* const next = o + kWideDepth < O     ? weight + kWideDepth * I
                                : i + kWideColumns < I ? args.weight + i + kWideColumns
                                                       : args.weight + O * I;
      add_wide_pass(args.rows, groups.data() + o * kMicroRows, O * kMicroRows, packed.data(), depth, num_panels, sums.data(),
                    {next, I, (kWideColumns + kLine - 1) / kLine}, o > 0);
    }
    for (std::int64_t p = 0; p < num_panels; ++p)
      for (std::int64_t n = 0; n < args.rows; ++n)
        copy(sums.data() + (p * args.rows + n) * kPanel, columns_of(p), args.input_gradient + n * I + i + p * kPanel);
  }
}

/// Past the caches: nobody reads a weight's gradient soon. 64-byte aligned.
void store_past_caches(float* address, Vec value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(address, bit_cast<__m512>(value));
#elif defined(__AVX2__)
  _mm256_stream_ps(address, bit_cast<__m256>(value));
#elif defined(__SSE2__)
  _mm_stream_ps(address, bit_cast<__m128>(value));
#else
  store(address, value);
#endif
}

enum class Target { Overwrite, OverwritePastCaches, Accumulate };

/// C[6, kPanel] = or += A · B; A's rows lie kMicroRows apart, and B's kPanel. Accumulating, the lines of the tile at `next` are fetched.
template <Target target>
void gradient_tile(const float* a, const float* b, std::int64_t depth, ResultMatrix c, const float* next) {
  Vec sums[kMicroRows][kMicroVectors] = {};
  for (std::int64_t k = 0; k < depth; ++k, a += kMicroRows, b += kPanel) {
    Vec row_of_b[kMicroVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kMicroVectors; ++v) row_of_b[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kMicroRows; ++i) {
      const Vec factor = broadcast(a[i]);
#pragma GCC unroll 4
      for (int v = 0; v < kMicroVectors; ++v) sums[i][v] += factor * row_of_b[v];
    }
    constexpr std::int64_t kLines = (kPanel + kLine - 1) / kLine;
    if (target == Target::Accumulate && k < kMicroRows * kLines) __builtin_prefetch(next + k / kLines * c.row_stride + k % kLines * kLine, 1, 3);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kMicroRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kMicroVectors; ++v) {
      float* const address = c.data + i * c.row_stride + v * kLanes;
      if constexpr (target == Target::OverwritePastCaches) {
        store_past_caches(address, sums[i][v]);
      } else {
        store(address, target == Target::Accumulate ? load(address) + sums[i][v] : sums[i][v]);
      }
    }
  }
}

/// Columns of rows in groups of kMicroRows: group g holds columns g · kMicroRows …, [rows, kMicroRows], zero past the last column.
void pack_groups(const float* rows_data, std::int64_t rows, std::int64_t columns, float* packed) {
  for (std::int64_t first = 0; first < columns; first += kMicroRows) {
    const std::int64_t count = smaller(kMicroRows, columns - first);
    if (count < kMicroRows) std::memset(packed, 0, static_cast<std::size_t>(rows * kMicroRows) * sizeof(float));
    for (std::int64_t row = 0; row < rows; ++row, packed += kMicroRows) {
      const float* const source = rows_data + row * columns + first;
      if (count == kMicroRows) {
        std::memcpy(packed, source, kMicroRows * sizeof(float));
      } else {
        std::memcpy(packed, source, static_cast<std::size_t>(count) * sizeof(float));
      }
    }
  }
}

/// A tile that sticks out of the matrix is made aside.
void edge_tile(const float* a, const float* b, std::int64_t depth, ResultMatrix c, std::int64_t rows, std::int64_t columns, bool accumulate) {
  alignas(64) float aside[kMicroRows * kPanel];
  gradient_tile<Target::Overwrite>(a, b, depth, {aside, kPanel}, nullptr);
  for (std::int64_t row = 0; row < smaller(rows, kMicroRows); ++row)
    for_vectors(columns, [&](std::int64_t at, auto lanes) {
      float* const address = c.data + row * c.row_stride + at;
      const Vec value = load(aside + row * kPanel + at, lanes);
      store(address, accumulate ? load(address, lanes) + value : value, lanes);
    });
}

template <Target target>
void weight_gradient(const ExpertWeightGradient& args) {
  const std::int64_t I = args.inputs, O = args.outputs, N = args.rows;
  const Scratch columns(panels(I) * N * kPanel), factors((O + kMicroRows) * N);
  for (std::int64_t i = 0; i < I; i += kPanel) pack_panel(args.input + i, N, smaller(kPanel, I - i), I, columns.data() + i * N);
  pack_groups(args.gradient, N, O, factors.data());
  for (std::int64_t o = 0; o < O; o += kGroup)
    for (std::int64_t i = 0; i < I; i += kPanel)
      for (std::int64_t q = o; q < smaller(o + kGroup, O); q += kMicroRows) {
        const ResultMatrix c{args.weight_gradient + q * I + i, I};
        if (q + kMicroRows > O || i + kPanel > I) {
          edge_tile(factors.data() + q * N, columns.data() + i * N, N, c, O - q, smaller(kPanel, I - i), target == Target::Accumulate);
          continue;
        }
        const float* const next = q + kMicroRows < o + kGroup ? c.data + kMicroRows * I : args.weight_gradient + o * I + i + kPanel;
        gradient_tile<target>(factors.data() + q * N, columns.data() + i * N, N, c, next);
      }
}

void expert_weight_gradient_kernel(const ExpertWeightGradient& args) {
  if (args.accumulate) return weight_gradient<Target::Accumulate>(args);
  const bool aligned = reinterpret_cast<std::uintptr_t>(args.weight_gradient) % 64 == 0 && args.inputs % kLine == 0;
  if (!aligned) return weight_gradient<Target::Overwrite>(args);
  weight_gradient<Target::OverwritePastCaches>(args);
#if defined(__SSE2__)
  _mm_sfence();  // other threads see it after whatever they wait for
#endif
}

}  // namespace
}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(expert_forward_kernel, ExpertForward)
TESSERA_KERNEL(expert_input_gradient_kernel, ExpertInputGradient)
TESSERA_KERNEL(expert_weight_gradient_kernel, ExpertWeightGradient)

}  // namespace tessera::ops::cpu
