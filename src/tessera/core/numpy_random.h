#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace tessera {

/// numpy.random.RandomState(seed), as far as Megatron-LM draws from it: the Mersenne Twister (MT19937) and `shuffle` of an array of one dimension, to
/// the bit.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(std::uint32_t seed) : generator_(seed) {}

  template <class Value>
  void shuffle(std::span<Value> values) {
    for (std::uint64_t i = values.size(); i-- > 1;) std::swap(values[i], values[below_or_equal(i)]);
  }

 private:
  /// Uniform in [0, most]: words masked to the bits of `most`, until one fits.
  std::uint64_t below_or_equal(std::uint64_t most) {
    std::uint64_t mask = most;
    for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
    for (;;) {
      const std::uint64_t value = word(most) & mask;
      if (value <= most) return value;
    }
  }
  /// One output of the generator, or two where the range needs more than 32 bits, the first on top.
  std::uint64_t word(std::uint64_t most) {
    const std::uint64_t first = generator_();
    return most <= 0xFFFFFFFFU ? first : first << 32 | generator_();
  }

  std::mt19937 generator_;
};

}  // namespace tessera
