#include "tessera/core/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr std::array kAll{DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8_E4M3, DType::F8_E5M2, DType::I64, DType::I32,
                          DType::I16, DType::I8,  DType::U64, DType::U32,  DType::U16,     DType::U8,      DType::Bool};

TEST(DType, EveryNameReadsBack) {
  for (const DType dtype : kAll) {
    EXPECT_EQ(dtype_from_safetensors(to_string(dtype)), dtype);
    EXPECT_EQ(dtype_from_torch(torch_name(dtype)), dtype);
    EXPECT_EQ(dtype_from_torch("torch." + std::string(torch_name(dtype))), dtype);
  }
}

TEST(DType, SizesAreThoseOfTheNames) {
  EXPECT_EQ(size_of(DType::F64), 8U);
  EXPECT_EQ(size_of(DType::BF16), 2U);
  EXPECT_EQ(size_of(DType::F8_E4M3), 1U);
  EXPECT_EQ(size_of(DType::Bool), 1U);
}

TEST(DType, AliasesOfRecipes) {
  EXPECT_EQ(dtype_from_torch("bf16"), DType::BF16);
  EXPECT_EQ(dtype_from_torch("fp32"), DType::F32);
  EXPECT_EQ(dtype_from_torch("torch.half"), DType::F16);
  EXPECT_EQ(dtype_from_torch("bfloat"), std::nullopt);
  EXPECT_EQ(dtype_from_torch(""), std::nullopt);
  EXPECT_EQ(dtype_from_safetensors("f32"), std::nullopt);
}

/// The value of a half by its definition.
double half_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1F) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(DType, EveryHalfHasItsValueAndComesBack) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double expected = half_by_definition(bits);
    const float value = half_to_float(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(half_by_definition(float_to_half(value))));
      continue;
    }
    ASSERT_EQ(value, expected) << "bits " << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << "bits " << bits;
    ASSERT_EQ(float_to_half(value), bits);
  }
}

/// Between two neighbouring halves: below the middle goes down, above goes up, the middle goes to the even one.
TEST(DType, HalvesRoundToNearestEven) {
  for (std::uint16_t low = 0; low < 0x7BFF; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float middle = 0.5F * (half_to_float(low) + half_to_float(high));
    ASSERT_EQ(float_to_half(middle), (low & 1) == 0 ? low : high) << "after bits " << low;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), high);
    ASSERT_EQ(float_to_half(-middle), 0x8000 | float_to_half(middle));
  }
}

TEST(DType, HalvesOverflowToInfinity) {
  EXPECT_EQ(float_to_half(65504.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30F), 0xFC00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(float_to_half(1e-30F), 0);
}

TEST(DType, EveryBfloat16ComesBack) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float value = bfloat16_to_float(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), pattern << 16);
    ASSERT_EQ(float_to_bfloat16(value), std::isnan(value) ? bits | 0x40 : bits);
  }
}

TEST(DType, Bfloat16RoundsToNearestEven) {
  for (std::uint32_t low = 0; low < 0x7F7F; ++low) {
    const std::uint32_t middle = (low << 16) | 0x8000;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle)), (low & 1) == 0 ? low : low + 1);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle - 1)), low);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle + 1)), low + 1);
  }
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(float_to_bfloat16(-std::numeric_limits<float>::infinity()), 0xFF80);
}

TEST(DType, SignallingNanDoesNotBecomeInfinity) {
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::bit_cast<float>(0xFF800001U)))));
}

}  // namespace
}  // namespace tessera
