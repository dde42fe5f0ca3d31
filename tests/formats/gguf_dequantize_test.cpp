#include "tessera/formats/gguf_dequantize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "support/support.h"
#include "tessera/formats/safetensors.h"

namespace tessera::formats {
namespace {

class Dequantize : public testing::TestWithParam<GgmlType> {};

// The fixture holds random blocks and what the gguf Python package makes of them.
TEST_P(Dequantize, IsBitForBitTheReference) {
  const SafetensorsFile fixture(test::test_data("formats/gguf_blocks.safetensors"));
  const std::string name(ggml_type_info(GetParam())->name);
  const auto blocks = fixture.bytes(*fixture.find(name + ".blocks"));
  const auto expected = fixture.bytes(*fixture.find(name + ".values"));
  std::vector<float> values(expected.size() / sizeof(float));
  ASSERT_TRUE(can_dequantize(GetParam()));
  dequantize(GetParam(), blocks, values);
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(EveryType, Dequantize,
                         testing::Values(GgmlType::F32, GgmlType::F16, GgmlType::BF16, GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1,
                                         GgmlType::Q8_0, GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K),
                         [](const auto& info) { return std::string(ggml_type_info(info.param)->name); });

TEST(CanDequantize, KnowsWhatItCannotDo) {
  EXPECT_FALSE(can_dequantize(static_cast<GgmlType>(10)));
  EXPECT_EQ(ggml_type_info(static_cast<GgmlType>(10))->name, "Q2_K");
  EXPECT_FALSE(can_dequantize(static_cast<GgmlType>(4)));
  EXPECT_FALSE(ggml_type_info(static_cast<GgmlType>(4)).has_value());
}

}  // namespace
}  // namespace tessera::formats
