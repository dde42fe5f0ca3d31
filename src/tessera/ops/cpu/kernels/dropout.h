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
    const UintVec elements = bit_cast<UintVec>(lane_numbers()) + first_element;
    return (dropout_word(row_key, elements) >= threshold_) ? value * scale_ : Vec{};
  }

 private:
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
