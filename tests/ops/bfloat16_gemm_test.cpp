#include "tessera/ops/bfloat16_gemm.h"

#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

// Whatever this machine's matrix instructions, the widened product is the exact one rounded once, and libtorch's bf16 product is near it.
TEST(WidenedMatmul, IsTheExactProductRoundedOnce) {
  for (const std::int64_t rows : {1, 1024, 2500}) {
    const at::Tensor a = random_tensor({rows, 33}, 1, at::kBFloat16), b = random_tensor({33, 17}, 2, at::kBFloat16);
    const at::Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor half = widened_matmul(a, b, at::kBFloat16), single = widened_matmul(a, b, at::kFloat);
    EXPECT_EQ(half.scalar_type(), at::kBFloat16);
    EXPECT_EQ(single.scalar_type(), at::kFloat);
    EXPECT_LE(relative_error(single, exact), 1e-6);
    EXPECT_LE(relative_error(half, exact), 1.0 / 256.0);
    EXPECT_LE(relative_error(at::matmul(a, b), half), 1.0 / 128.0);
  }
}

TEST(WidenedMatmul, TakesTransposedOperands) {
  const at::Tensor a = random_tensor({19, 1100}, 1, at::kBFloat16).t(), b = random_tensor({23, 19}, 2, at::kBFloat16).t();
  EXPECT_LE(relative_error(widened_matmul(a, b, at::kFloat), at::matmul(a.to(at::kDouble), b.to(at::kDouble))), 1e-6);
}

}  // namespace
}  // namespace tessera::ops::test
