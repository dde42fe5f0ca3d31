#pragma once

#include <cstdint>
#include <cstring>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

/// Vectors of fp32 lanes in the compiler's own vector extension: as wide as the instruction set this file is being compiled for.
/// Everything lies in a namespace named after the instruction set, so that no inline function is shared between them.
namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

inline constexpr Isa kIsa = Isa::TESSERA_KERNEL_ISA;

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t UintVec __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline Vec broadcast(float value) { return value - Vec{}; }
inline IntVec lane_numbers() {
  IntVec numbers;
  for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = lane;
  return numbers;
}
inline Vec select(IntVec condition, Vec yes, Vec no) { return condition ? yes : no; }
/// a > b ? a : b: a NaN in `a` is dropped.
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

/// How many of a vector's lanes an access touches: all, or the first `count`.
struct Full {};
struct Partial {
  std::int64_t count;
};

inline Vec widen(HalfVec bits) { return bit_cast<Vec>(__builtin_convertvector(bits, UintVec) << 16); }
/// Round to nearest even; NaN becomes the quiet NaN of its sign.
inline HalfVec narrow(Vec value) {
  const UintVec bits = bit_cast<UintVec>(value);
  const UintVec rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  const UintVec quiet = bits | 0x400000u;
  const UintVec chosen = (value != value) ? quiet : rounded;
  return __builtin_convertvector(chosen >> 16, HalfVec);
}

template <class V, class T>
inline V load_bits(const T* address, Full) {
  V value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}
template <class V, class T>
inline V load_bits(const T* address, Partial lanes) {
  V value = {};
  std::memcpy(&value, address, static_cast<std::size_t>(lanes.count) * sizeof(T));
  return value;
}
template <class V, class T>
inline void store_bits(T* address, V value, Full) {
  std::memcpy(address, &value, sizeof(value));
}
template <class V, class T>
inline void store_bits(T* address, V value, Partial lanes) {
  std::memcpy(address, &value, static_cast<std::size_t>(lanes.count) * sizeof(T));
}

/// Lanes beyond a partial access read as zero.
template <class Lanes = Full>
inline Vec load(const float* address, Lanes lanes = {}) {
  return load_bits<Vec>(address, lanes);
}
template <class Lanes = Full>
inline Vec load(const bfloat16* address, Lanes lanes = {}) {
  return widen(load_bits<HalfVec>(address, lanes));
}
template <class Lanes = Full>
inline void store(float* address, Vec value, Lanes lanes = {}) {
  store_bits(address, value, lanes);
}
template <class Lanes = Full>
inline void store(bfloat16* address, Vec value, Lanes lanes = {}) {
  store_bits(address, narrow(value), lanes);
}

inline float to_float(float value) { return value; }
inline float to_float(bfloat16 value) { return bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
inline void assign(float& target, float value) { target = value; }
inline void assign(bfloat16& target, float value) { store(&target, broadcast(value), Partial{1}); }
/// Zeroes the lanes past a partial access (after arithmetic that may have made them non-zero).
inline Vec keep(Vec value, Full) { return value; }
inline Vec keep(Vec value, Partial lanes) { return select(lane_numbers() < static_cast<std::int32_t>(lanes.count), value, Vec{}); }
inline Vec keep_or(Vec value, Vec, Full) { return value; }
inline Vec keep_or(Vec value, Vec other, Partial lanes) { return select(lane_numbers() < static_cast<std::int32_t>(lanes.count), value, other); }

/// Calls body(index, lanes) for index = 0, kLanes, …: full vectors, then at most one partial.
template <class Body>
inline void for_vectors(std::int64_t size, const Body& body) {
  std::int64_t index = 0;
  for (; index + kLanes <= size; index += kLanes) body(index, Full{});
  if (index < size) body(index, Partial{size - index});
}

#if defined(__AVX512F__)
typedef float HalfWidthVec __attribute__((vector_size(32)));
inline HalfWidthVec low_half(Vec v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
inline HalfWidthVec high_half(Vec v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }
#else
typedef Vec HalfWidthVec;
#endif
typedef float QuadVec __attribute__((vector_size(16)));
#if defined(__AVX2__)
inline QuadVec low_quad(HalfWidthVec v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
inline QuadVec high_quad(HalfWidthVec v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
#endif

/// Folds the lanes pairwise with `combine`, in a fixed order.
template <class Combine>
inline float fold(Vec value, const Combine& combine) {
#if defined(__AVX512F__)
  const HalfWidthVec half = combine(high_half(value), low_half(value));
#else
  const HalfWidthVec half = value;
#endif
#if defined(__AVX2__)
  const QuadVec quad = combine(high_quad(half), low_quad(half));
#else
  const QuadVec quad = half;
#endif
  const QuadVec pair = combine(__builtin_shufflevector(quad, quad, 2, 3, 0, 1), quad);
  const QuadVec one = combine(__builtin_shufflevector(pair, pair, 1, 0, 3, 2), pair);
  return one[0];
}
inline float sum(Vec value) {
  return fold(value, [](auto a, auto b) { return a + b; });
}
/// The largest lane, when none is NaN.
inline float largest(Vec value) {
  return fold(value, [](auto a, auto b) { return a > b ? a : b; });
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
