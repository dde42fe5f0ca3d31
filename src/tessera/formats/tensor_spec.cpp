#include "tessera/formats/tensor_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/core/error.h"

namespace tessera::formats {

std::uint64_t num_elements(std::span<const std::int64_t> shape) {
  std::uint64_t product = 1;
  for (const std::int64_t dimension : shape) {
    TESSERA_ASSERT(dimension >= 0, "negative dimension");
    product *= static_cast<std::uint64_t>(dimension);
  }
  return product;
}

std::uint64_t num_bytes(const TensorSpec& spec) { return num_elements(spec.shape) * size_of(spec.dtype); }

std::optional<std::uint64_t> checked_num_elements(std::span<const std::int64_t> shape) {
  std::uint64_t product = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(product, static_cast<std::uint64_t>(dimension), &product)) return std::nullopt;
  }
  return product;
}

std::string shape_to_string(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace tessera::formats
