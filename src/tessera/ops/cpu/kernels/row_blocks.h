#pragma once

#include <cstdint>

#include "tessera/ops/cpu/kernels/scratch.h"
#include "tessera/ops/cpu/kernels/simd.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

inline constexpr std::int64_t kGrain = 16384;  ///< elements below which a second thread does not pay

/// Rows that one thread should at least have.
inline std::int64_t grain_rows(std::int64_t elements_per_row) {
  return elements_per_row > 0 ? (kGrain + elements_per_row - 1) / elements_per_row : 1;
}

/// Sums over rows whose result does not depend on the number of threads: rows are cut into at most 16 blocks by their number alone, each block
/// sums into its own zeroed row of `width` numbers, and the rows are added to `totals` in order.
/// body(block_totals, first_row, last_row) runs once per block.
template <class Body>
void sum_over_row_blocks(std::int64_t rows, std::int64_t width, float* totals, const Body& body) {
  if (rows <= 0) return;
  const std::int64_t rows_per_block = rows <= 256 ? 16 : (rows + 15) / 16;
  const std::int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
  const Scratch partial(blocks * width);
  parallel_for(0, blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      float* block_totals = partial.data() + block * width;
      std::memset(block_totals, 0, static_cast<std::size_t>(width) * sizeof(float));
      const std::int64_t end = (block + 1) * rows_per_block;
      body(block_totals, block * rows_per_block, end < rows ? end : rows);
    }
  });
  for (std::int64_t block = 0; block < blocks; ++block) {
    for_vectors(width, [&](std::int64_t c, auto lanes) {
      store(totals + c, load(totals + c, lanes) + load(partial.data() + block * width + c, lanes), lanes);
    });
  }
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
