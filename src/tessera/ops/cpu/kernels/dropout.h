#pragma once

#include "tessera/ops/cpu/dropout.h"
#include "tessera/ops/cpu/kernels/simd.h"

namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

/// dropout.h's mask, a vector of consecutive elements at a time.
class DropoutMask {
 public:
  explicit DropoutMask(float probability) : threshold_(dropout_threshold(probability)), scale_(1.0f / (1.0f - probability)) {}
  /// value / (1 - probability) where kept, 0 elsewhere.
  Vec apply(Vec value, std::uint64_t row_key, std::uint32_t first_element) const {
    return (words(row_key, first_element) >= threshold_) ? value * scale_ : Vec{};
  }

 private:
  static UintVec words(std::uint64_t row_key, std::uint32_t first_element) {
    const UintVec elements = bit_cast<UintVec>(lane_numbers()) + first_element;
    UintVec x = elements * 0x9E3779B9u + static_cast<std::uint32_t>(row_key);
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x ^= static_cast<std::uint32_t>(row_key >> 32);
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
  }

  std::uint32_t threshold_;
  float scale_;
};

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
