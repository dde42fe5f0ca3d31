#include "tessera/cli/compute_dtype.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::cli {
namespace {

TEST(ComputeDtype, TakesEverySpellingOfWhatIsAllowed) {
  EXPECT_EQ(compute_dtype("bf16", {DType::F32, DType::BF16}), DType::BF16);
  EXPECT_EQ(compute_dtype("torch.float32", {DType::F32, DType::BF16}), DType::F32);
  EXPECT_EQ(compute_dtype("auto", {DType::F32}, true), std::nullopt);
}

TEST(ComputeDtype, RefusesTheRestAndListsTheChoices) {
  EXPECT_THAT(test::error_of([] { compute_dtype("float64", {DType::F32, DType::BF16}); }), testing::HasSubstr("use float32 or bfloat16"));
  EXPECT_THAT(test::error_of([] { compute_dtype("int8", {DType::F32, DType::BF16}, true); }), testing::HasSubstr("use auto, float32 or bfloat16"));
  EXPECT_THAT(test::error_of([] { compute_dtype("auto", {DType::F32}); }), testing::HasSubstr("\"auto\" is not a dtype to compute in"));
}

}  // namespace
}  // namespace tessera::cli
