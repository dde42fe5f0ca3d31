#pragma once

#include <cstdint>

namespace tessera::ops::cpu {

/// The bits of one bfloat16 number; same size and layout as at::BFloat16, so pointers may be reinterpreted.
/// Kernels take `float` or `bfloat16` elements (the template argument T below), compute in fp32 and round once at the end.
struct bfloat16 {
  std::uint16_t bits;
};

}  // namespace tessera::ops::cpu
