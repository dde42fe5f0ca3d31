#include "tessera/formats/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace tessera::formats {
namespace {

template <class To, class From>
std::vector<To> convert(DType source, const std::vector<From>& from, DType destination) {
  std::vector<To> to(from.size());
  convert_elements(source, std::as_bytes(std::span(from)).data(), destination, std::as_writable_bytes(std::span(to)).data(), from.size());
  return to;
}

/// Random bit patterns of every size, and the values where rounding changes its mind.
std::vector<float> interesting_floats() {
  std::mt19937 random(3);
  std::vector<float> floats;
  for (int i = 0; i < 200'000; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (std::uint32_t half = 0; half < 0x7C00; ++half) {
    const float value = half_to_float(static_cast<std::uint16_t>(half));
    const float next = half_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = std::isinf(next) ? 65520.0F : (value + next) / 2;
    for (const float around : {value, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)})
      floats.insert(floats.end(), {around, -around});
  }
  const float infinity = std::numeric_limits<float>::infinity();
  floats.insert(floats.end(), {0.0F, -0.0F, infinity, -infinity, std::nanf(""), 1e-45F, 3.4e38F});
  return floats;
}

TEST(Convert, FloatsRoundAsTheScalarFunctionsDo) {
  const std::vector<float> floats = interesting_floats();
  const auto halves = convert<std::uint16_t>(DType::F32, floats, DType::F16);
  const auto bfloats = convert<std::uint16_t>(DType::F32, floats, DType::BF16);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(halves[i], float_to_half(floats[i])) << floats[i];
    ASSERT_EQ(bfloats[i], float_to_bfloat16(floats[i])) << floats[i];
  }
}

TEST(Convert, EverySixteenBitPatternWidensExactly) {
  std::vector<std::uint16_t> patterns;
  for (std::uint32_t i = 0; i < 0x10000; ++i) patterns.push_back(static_cast<std::uint16_t>(i));
  const auto from_half = convert<std::uint32_t>(DType::F16, patterns, DType::F32);
  const auto from_bfloat = convert<std::uint32_t>(DType::BF16, patterns, DType::F32);
  for (const std::uint16_t pattern : patterns) {
    ASSERT_EQ(from_half[pattern], std::bit_cast<std::uint32_t>(half_to_float(pattern))) << pattern;
    ASSERT_EQ(from_bfloat[pattern], std::bit_cast<std::uint32_t>(bfloat16_to_float(pattern))) << pattern;
  }
}

TEST(Convert, HalvesSurviveTheWayThroughFloat) {
  std::vector<std::uint16_t> finite;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    if ((i & 0x7C00) != 0x7C00) finite.push_back(static_cast<std::uint16_t>(i));
  }
  EXPECT_EQ((convert<std::uint16_t>(DType::F32, convert<float>(DType::F16, finite, DType::F32), DType::F16)), finite);
}

TEST(Convert, DoublesNarrowToNearestEven) {
  const std::vector<double> doubles{1.0, 1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 1e300, -0.0, 0.1};
  EXPECT_EQ((convert<float>(DType::F64, doubles, DType::F32)),
            (std::vector<float>{1.0F, 1.0F, 1.0F + 0x1p-22F, std::numeric_limits<float>::infinity(), -0.0F, 0.1F}));
}

TEST(Convert, WorksOnUnalignedMemory) {
  std::vector<std::byte> from(1 + 4 * 3000);
  std::vector<std::byte> to(1 + 2 * 3000);
  for (std::size_t i = 0; i < 3000; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(from.data() + 1 + 4 * i, &value, 4);
  }
  convert_elements(DType::F32, from.data() + 1, DType::BF16, to.data() + 1, 3000);
  for (std::size_t i = 0; i < 3000; ++i) {
    std::uint16_t value = 0;
    std::memcpy(&value, to.data() + 1 + 2 * i, 2);
    ASSERT_EQ(value, float_to_bfloat16(static_cast<float>(i)));
  }
}

TEST(Convert, KnowsWhatConverts) {
  EXPECT_TRUE(is_convertible(DType::F64, DType::BF16));
  EXPECT_TRUE(is_convertible(DType::I64, DType::I64));
  EXPECT_FALSE(is_convertible(DType::F32, DType::F64));
  EXPECT_FALSE(is_convertible(DType::I64, DType::F32));
  EXPECT_FALSE(is_convertible(DType::F8_E4M3, DType::F32));
}

}  // namespace
}  // namespace tessera::formats
