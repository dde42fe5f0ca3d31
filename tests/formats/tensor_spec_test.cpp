#include "tessera/formats/tensor_spec.h"

#include <gtest/gtest.h>

namespace tessera::formats {
namespace {

TEST(TensorSpec, CountsElementsAndBytes) {
  EXPECT_EQ(num_elements({}), 1U);
  EXPECT_EQ(num_elements(std::vector<std::int64_t>{2, 3, 0}), 0U);
  EXPECT_EQ(num_bytes({"a", DType::BF16, {2, 3}}), 12U);
  EXPECT_EQ(shape_to_string(std::vector<std::int64_t>{2, 3}), "[2, 3]");
}

TEST(TensorSpec, NoticesOverflow) {
  EXPECT_EQ(checked_num_elements(std::vector<std::int64_t>{1LL << 32, 1LL << 31}), 1ULL << 63);
  EXPECT_FALSE(checked_num_elements(std::vector<std::int64_t>{1LL << 32, 1LL << 32}).has_value());
  EXPECT_FALSE(checked_num_elements(std::vector<std::int64_t>{-1}).has_value());
}

}  // namespace
}  // namespace tessera::formats
