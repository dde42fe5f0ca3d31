#include "tessera/core/random.h"

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

/// One round of splitmix64: spreads a combined key over all bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

std::array<std::uint32_t, 4> words(std::uint64_t key, std::uint64_t element) {
  return philox4x32({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32), 0, 0},
                    {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

double to_unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = 0xD2511F53ULL * counter[0];
    const std::uint64_t product1 = 0xCD9E8D57ULL * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3ULL;
  return hash;
}

CounterRandom::CounterRandom(std::uint64_t seed, std::string_view purpose, std::string_view subject)
    : CounterRandom(seed, purpose, hash_name(subject)) {}
CounterRandom::CounterRandom(std::uint64_t seed, std::string_view purpose, std::uint64_t subject)
    : key_(mix(mix(mix(seed) ^ hash_name(purpose)) ^ subject)) {}

std::uint64_t CounterRandom::bits(std::uint64_t element) const {
  const auto word = words(key_, element);
  return static_cast<std::uint64_t>(word[0]) << 32 | word[1];
}

double CounterRandom::uniform(std::uint64_t element) const {
  const auto word = words(key_, element);
  return to_unit(word[0], word[1]);
}

std::uint64_t CounterRandom::below(std::uint64_t bound, std::uint64_t element) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(element)) * bound) >> 64);
}

double CounterRandom::normal(std::uint64_t element) const {
  const auto word = words(key_, element);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(word[0], word[1])));
  return radius * std::cos(2.0 * std::numbers::pi * to_unit(word[2], word[3]));
}

}  // namespace tessera
