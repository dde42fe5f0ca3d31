#include "tessera/cli/dtype_option.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::cli {
namespace {

TEST(DtypeOption, TakesEverySpellingOfWhatIsAllowed) {
  EXPECT_EQ(compute_dtype("bf16", {DType::F32, DType::BF16}), DType::BF16);
  EXPECT_EQ(compute_dtype("torch.float32", {DType::F32, DType::BF16}), DType::F32);
  EXPECT_EQ(compute_dtype("auto", {DType::F32}, true), std::nullopt);
}

TEST(DtypeOption, RefusesTheRestAndListsTheChoices) {
  EXPECT_THAT(test::error_of([] { compute_dtype("float64", {DType::F32, DType::BF16}); }), testing::HasSubstr("use float32 or bfloat16"));
  EXPECT_THAT(test::error_of([] { compute_dtype("int8", {DType::F32, DType::BF16}, true); }), testing::HasSubstr("use auto, float32 or bfloat16"));
  EXPECT_THAT(test::error_of([] { compute_dtype("auto", {DType::F32}); }), testing::HasSubstr("\"auto\" is not a dtype to compute in"));
}

TEST(DtypeOption, StorageHasAChoiceOfItsOwn) {
  EXPECT_EQ(storage_dtype("fp16"), DType::F16);
  EXPECT_EQ(storage_dtype("auto"), std::nullopt);
  EXPECT_THAT(test::error_of([] { storage_dtype("float64"); }), testing::AllOf(testing::HasSubstr("\"float64\" is not a dtype to store weights in"),
                                                                               testing::HasSubstr("use auto, float32, bfloat16 or float16")));
}

}  // namespace
}  // namespace tessera::cli
