#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/core/dtype.h"

namespace tessera::model {

/// The libtorch name of an element type that parameters may have (F64, F32, BF16, F16).
at::ScalarType scalar_type(DType dtype);

/// A zeroed one-dimensional CPU tensor that owns its memory; 64-byte aligned. Large ones come straight from the kernel, on huge pages where it
/// grants them, and occupy memory only once touched.
at::Tensor allocate_flat(std::int64_t num_elements, DType dtype);

}  // namespace tessera::model
