#include "tessera/comm/reduction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/comm/dtype.h"

namespace tessera::comm {
namespace {

std::vector<Part> parts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Part> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back({tensor.data_ptr(), to_dtype(tensor.scalar_type())});
  return parts;
}

at::Tensor reduce(const std::vector<at::Tensor>& tensors, ReduceOperation operation, at::ScalarType type) {
  const at::Tensor output = at::empty(tensors[0].sizes(), type);
  reduce_parts(parts_of(tensors), operation, output.data_ptr(), to_dtype(type), output.numel());
  return output;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

TEST(Reduction, ConvertsLikeLibtorch) {
  // Every pattern of the upper half of a float's bits, with ties and their neighbours below.
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; high += 3) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  const at::Tensor input = at::tensor(values);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor output = at::empty(input.sizes(), type);
    round_elements(input.data_ptr(), DType::F32, output.data_ptr(), to_dtype(type), input.numel());
    EXPECT_TRUE(same_bits(output, input.to(type))) << c10::toString(type);
    const at::Tensor back = at::empty(input.sizes(), at::kFloat);
    round_elements(output.data_ptr(), to_dtype(type), back.data_ptr(), DType::F32, input.numel());
    EXPECT_TRUE(same_bits(back, input.to(type).to(at::kFloat))) << c10::toString(type);
  }
}

TEST(Reduction, SumsInTheOrderOfThePartsAndRoundsOnce) {
  // 1 + 2^-24 + 2^-24 is 1 in fp32 from the left and 1 + 2^-23 from the right.
  const float tiny = std::ldexp(1.0F, -24);
  const at::Tensor one = at::full({3000}, 1.0F);
  const at::Tensor small = at::full({3000}, tiny);
  EXPECT_TRUE(at::equal(reduce({one, small, small}, ReduceOperation::Sum, at::kFloat), one));
  EXPECT_TRUE(at::equal(reduce({small, small, one}, ReduceOperation::Sum, at::kFloat), one + 2 * tiny));
  // bf16 has 8 bits: 256 + 1 + 1 would stay 256 if each sum were rounded.
  const at::Tensor big = at::full({5}, 256.0F, at::kBFloat16);
  const at::Tensor unit = at::full({5}, 1.0F, at::kBFloat16);
  EXPECT_EQ(reduce({big, unit, unit}, ReduceOperation::Sum, at::kBFloat16)[0].item<float>(), 258.0F);
}

TEST(Reduction, MixesTypesAndWidensToDouble) {
  const at::Tensor a = at::full({7}, 0.1F);
  const at::Tensor b = at::full({7}, 0.1F, at::kBFloat16);
  EXPECT_TRUE(same_bits(reduce({a, b}, ReduceOperation::Sum, at::kFloat), a + b.to(at::kFloat)));
  const at::Tensor c = at::full({7}, 0.1, at::kDouble);
  EXPECT_TRUE(same_bits(reduce({c, c}, ReduceOperation::Sum, at::kDouble), c + c));
}

TEST(Reduction, IntegersAreExactAndWrapAround) {
  const at::Tensor big = at::full({3}, std::numeric_limits<std::int64_t>::max(), at::kLong);
  EXPECT_EQ(reduce({big, at::ones({3}, at::kLong)}, ReduceOperation::Sum, at::kLong)[1].item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  const at::Tensor negative = at::full({3}, -5, at::kInt);
  EXPECT_EQ(reduce({negative, at::zeros({3}, at::kInt)}, ReduceOperation::Max, at::kInt)[2].item<int>(), 0);
  EXPECT_EQ(reduce({negative, at::zeros({3}, at::kInt)}, ReduceOperation::Min, at::kInt)[2].item<int>(), -5);
}

TEST(Reduction, NotANumberStays) {
  const at::Tensor nan = at::full({2}, std::nanf(""));
  const at::Tensor one = at::ones({2});
  for (const ReduceOperation operation : {ReduceOperation::Sum, ReduceOperation::Max, ReduceOperation::Min}) {
    EXPECT_TRUE(std::isnan(reduce({nan, one}, operation, at::kFloat)[0].item<float>()));
    EXPECT_TRUE(std::isnan(reduce({one, nan}, operation, at::kBFloat16)[0].item<float>()));
  }
}

}  // namespace
}  // namespace tessera::comm
