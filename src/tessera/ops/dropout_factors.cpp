#include "tessera/ops/dropout_factors.h"

#include <ATen/ops/zeros.h>

#include "tessera/ops/cpu/dropout.h"

namespace tessera::ops {

at::Tensor dropout_factors(std::span<const std::uint64_t> row_keys, std::int64_t width, double probability, const at::TensorOptions& options,
                           std::int64_t first) {
  const at::Tensor factors = at::zeros({static_cast<std::int64_t>(row_keys.size()), width}, at::kDouble);
  const std::uint32_t threshold = cpu::dropout_threshold(static_cast<float>(probability));
  double* factor = factors.data_ptr<double>();
  for (const std::uint64_t key : row_keys)
    for (std::int64_t element = 0; element < width; ++element, ++factor)
      if (cpu::dropout_word(key, static_cast<std::uint32_t>(first + element)) >= threshold) *factor = 1.0 / (1.0 - probability);
  return factors.to(options);
}

}  // namespace tessera::ops
