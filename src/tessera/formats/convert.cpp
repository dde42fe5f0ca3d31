#include "tessera/formats/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tessera/core/error.h"

// The loops hold selects instead of branches, so that compilers vectorise them; core/dtype.h has the plain forms, and the test compares the two.
namespace tessera::formats {
namespace {

constexpr std::size_t kChunk = 1024;  // elements: what stays in the first-level cache on the way through float
using Floats = std::array<float, kChunk>;

template <class Value>
std::array<Value, kChunk> load_chunk(const std::byte* from, std::size_t count) {
  std::array<Value, kChunk> values;
  std::memcpy(values.data(), from, count * sizeof(Value));
  return values;
}

void widen_f64(const std::byte* from, std::size_t count, Floats& floats) {
  const auto values = load_chunk<double>(from, count);
  for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(values[i]);
}

void widen_bf16(const std::byte* from, std::size_t count, Floats& floats) {
  const auto values = load_chunk<std::uint16_t>(from, count);
  for (std::size_t i = 0; i < count; ++i) floats[i] = bfloat16_to_float(values[i]);
}

void widen_f16(const std::byte* from, std::size_t count, Floats& floats) {
  const auto values = load_chunk<std::uint16_t>(from, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t sign = static_cast<std::uint32_t>(values[i] & 0x8000) << 16;
    const std::uint32_t magnitude = static_cast<std::uint32_t>(values[i] & 0x7FFF) << 13;
    // Moves the exponent from half's bias to float's; exact for subnormal halves too.
    const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    const std::uint32_t special = magnitude | 0x7F800000U;
    floats[i] = std::bit_cast<float>(sign | (magnitude >= (0x7C00U << 13) ? special : finite));
  }
}

void narrow_bf16(const Floats& floats, std::size_t count, std::byte* to) {
  std::array<std::uint16_t, kChunk> values;
  for (std::size_t i = 0; i < count; ++i) values[i] = float_to_bfloat16(floats[i]);
  std::memcpy(to, values.data(), count * sizeof(std::uint16_t));
}

void narrow_f16(const Floats& floats, std::size_t count, std::byte* to) {
  std::array<std::uint16_t, kChunk> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(floats[i]);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const std::uint32_t rebiased = magnitude - (112U << 23);
    const std::uint32_t normal = (rebiased + 0xFFF + ((rebiased >> 13) & 1)) >> 13;
    // Adding a half leaves the multiple of 2^-24, correctly rounded, in the low bits of the sum.
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    const std::uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
    const std::uint32_t special = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;
    constexpr std::uint32_t kOverflow = 0x477FF000U;  // 65520, which rounds to infinity
    values[i] = static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | (magnitude >= kOverflow ? special : finite));
  }
  std::memcpy(to, values.data(), count * sizeof(std::uint16_t));
}

void widen(DType source, const std::byte* from, std::size_t count, Floats& floats) {
  switch (source) {
    case DType::F64:
      return widen_f64(from, count, floats);
    case DType::F16:
      return widen_f16(from, count, floats);
    case DType::BF16:
      return widen_bf16(from, count, floats);
    default:
      std::memcpy(floats.data(), from, count * sizeof(float));
  }
}

void narrow(DType destination, const Floats& floats, std::size_t count, std::byte* to) {
  switch (destination) {
    case DType::F16:
      return narrow_f16(floats, count, to);
    case DType::BF16:
      return narrow_bf16(floats, count, to);
    default:
      std::memcpy(to, floats.data(), count * sizeof(float));
  }
}

}  // namespace

bool is_convertible(DType source, DType destination) {
  if (source == destination) return true;
  const auto narrow_float = [](DType dtype) { return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; };
  return (narrow_float(source) || source == DType::F64) && narrow_float(destination);
}

void convert_elements(DType source, const std::byte* from, DType destination, std::byte* to, std::uint64_t count) {
  TESSERA_ASSERT(is_convertible(source, destination), "dtypes do not convert");
  if (count == 0) return;
  if (source == destination) {
    std::memcpy(to, from, count * size_of(source));
    return;
  }
  Floats floats;
  for (std::uint64_t done = 0; done < count; done += kChunk) {
    const auto chunk = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, count - done));
    widen(source, from + done * size_of(source), chunk, floats);
    narrow(destination, floats, chunk, to + done * size_of(destination));
  }
}

}  // namespace tessera::formats
