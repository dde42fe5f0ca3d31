#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/core/dtype.h"

namespace tessera::formats {

/// F64, F32, F16 and BF16 convert to F32, F16 and BF16; every dtype to itself.
bool is_convertible(DType source, DType destination);
/// Converts `count` elements, rounding to nearest even (F64 narrows through F32, as torch does); the same dtype is copied bit for bit. Neither side
/// needs to be aligned; they must not overlap. Requires is_convertible.
void convert_elements(DType source, const std::byte* from, DType destination, std::byte* to, std::uint64_t count);

}  // namespace tessera::formats
