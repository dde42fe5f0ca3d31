#include "tessera/ops/cpu/arguments.h"
#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

constexpr std::int64_t kBlock = 65536;  // results are combined per block of this many elements, in order

/// Cuts a flat range into vectors on all threads.
template <class Body>
inline void parallel_vectors(std::int64_t size, const Body& body) {
  const std::int64_t vectors = (size + kLanes - 1) / kLanes;
  parallel_for(0, vectors, kGrain / kLanes, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * kLanes;
    const std::int64_t end = last * kLanes < size ? last * kLanes : size;
    for_vectors(end - begin, [&](std::int64_t i, auto lanes) { body(begin + i, lanes); });
  });
}

/// results[block] = block_result(first, last) for each block of the range.
template <class Result, class Function>
inline void parallel_blocks(std::int64_t size, Result* results, const Function& block_result) {
  parallel_for(0, (size + kBlock - 1) / kBlock, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t end = (block + 1) * kBlock;
      results[block] = block_result(block * kBlock, end < size ? end : size);
    }
  });
}

double sum_of_block_squares(const float* values, std::int64_t first, std::int64_t last) {
  constexpr int kChains = 32;
  double chains[kChains] = {};
  std::int64_t i = first;
  for (; i + kChains <= last; i += kChains) {
#pragma GCC unroll 1
    for (int lane = 0; lane < kChains; ++lane) {
      const double value = values[i + lane];
      chains[lane] += value * value;
    }
  }
  for (int lane = 0; i < last; ++i, ++lane) {
    const double value = values[i];
    chains[lane] += value * value;
  }
  for (int width = kChains / 2; width >= 1; width /= 2) {
    for (int lane = 0; lane < width; ++lane) chains[lane] += chains[lane + width];
  }
  return chains[0];
}

void sum_of_squares_kernel(const SumOfSquares& args) {
  const std::int64_t blocks = (args.size + kBlock - 1) / kBlock;
  const ScratchOf<double> sums(blocks);
  parallel_blocks(args.size, sums.data(), [&](std::int64_t first, std::int64_t last) { return sum_of_block_squares(args.values, first, last); });
  *args.result = 0.0;
  for (std::int64_t block = 0; block < blocks; ++block) *args.result += sums.data()[block];
}

inline bool is_finite(float value) { return (bit_cast<std::uint32_t>(value) & 0x7F800000u) != 0x7F800000u; }

inline bool all_finite(const float* values, std::int64_t size) {
  // 0 * x is NaN exactly when x is NaN or infinite, and a sum of zeros stays zero.
  Vec zeros = {};
  for_vectors(size, [&](std::int64_t i, auto lanes) { zeros += load(values + i, lanes) * 0.0f; });
  return sum(zeros) == 0.0f;
}

std::int64_t first_nonfinite_of_block(const float* values, std::int64_t first, std::int64_t last) {
  if (all_finite(values + first, last - first)) return -1;
  for (std::int64_t i = first; i < last; ++i) {
    if (!is_finite(values[i])) return i;
  }
  return -1;
}

void first_nonfinite_kernel(const FirstNonfinite& args) {
  const std::int64_t blocks = (args.size + kBlock - 1) / kBlock;
  const ScratchOf<std::int64_t> found(blocks);
  parallel_blocks(args.size, found.data(), [&](std::int64_t first, std::int64_t last) { return first_nonfinite_of_block(args.values, first, last); });
  *args.result = -1;
  for (std::int64_t block = 0; block < blocks && *args.result < 0; ++block) *args.result = found.data()[block];
}

void convert_kernel(const Convert& args) {
  parallel_vectors(args.size, [&](std::int64_t i, auto lanes) { store(args.output + i, load(args.input + i, lanes), lanes); });
}

template <class T>
void column_sums_kernel(const ColumnSums<T>& args) {
  sum_over_row_blocks(args.rows, args.columns, args.total, [&](float* totals, std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* input = args.input + row * args.row_stride;
      for_vectors(args.columns, [&](std::int64_t c, auto lanes) { store(totals + c, load(totals + c, lanes) + load(input + c, lanes), lanes); });
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(sum_of_squares_kernel, SumOfSquares)
TESSERA_KERNEL(first_nonfinite_kernel, FirstNonfinite)
TESSERA_KERNEL(convert_kernel, Convert)
TESSERA_KERNEL(column_sums_kernel, ColumnSums<float>)
TESSERA_KERNEL(column_sums_kernel, ColumnSums<bfloat16>)

}  // namespace tessera::ops::cpu
