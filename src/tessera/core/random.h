#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words of (key, counter).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// A stable 64-bit hash of a name (FNV-1a): the same on every machine and in every version.
std::uint64_t hash_name(std::string_view name);

/// Random numbers as a pure function of (seed, purpose, subject, element): nothing depends on the order of calls or on how work is split.
/// `purpose` says what for ("init", "dropout", "shuffle"); `subject` is a parameter name or a sample's number.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::string_view purpose, std::string_view subject);
  CounterRandom(std::uint64_t seed, std::string_view purpose, std::uint64_t subject);

  std::uint64_t bits(std::uint64_t element) const;
  /// Uniform in [0, 1), 53 bits.
  double uniform(std::uint64_t element) const;
  /// Uniform integer in [0, bound), bound > 0, without modulo bias worth measuring (128-bit multiply).
  std::uint64_t below(std::uint64_t bound, std::uint64_t element) const;
  /// Standard normal (Box and Muller 1958), one per element.
  double normal(std::uint64_t element) const;
  std::uint64_t key() const { return key_; }

 private:
  std::uint64_t key_;
};

}  // namespace tessera
