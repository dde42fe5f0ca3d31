#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"

namespace tessera::formats {

/// A named tensor without its bytes: what a file holds or will hold. Row-major; an empty shape is a scalar.
struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;

  bool operator==(const TensorSpec&) const = default;
};

/// Product of the dimensions; 1 for a scalar. Requires non-negative dimensions whose product fits (every parser here checks that).
std::uint64_t num_elements(std::span<const std::int64_t> shape);
/// num_elements × size_of(dtype).
std::uint64_t num_bytes(const TensorSpec& spec);
/// The product for a shape from an untrusted file: nullopt when a dimension is negative or the product overflows.
std::optional<std::uint64_t> checked_num_elements(std::span<const std::int64_t> shape);
/// "[2, 3]".
std::string shape_to_string(std::span<const std::int64_t> shape);

}  // namespace tessera::formats
