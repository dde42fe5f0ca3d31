#include "tessera/train/examine.h"

#include <gmock/gmock.h>

#include "train/small_recipe.h"

namespace tessera::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> problems_of(const std::vector<std::string>& overrides, std::int64_t num_ranks) {
  const tessera::test::TemporaryDirectory directory;
  std::vector<std::string> texts;
  for (const Problem& problem : examine(test::load_small_recipe(directory.path(), overrides), test::no_variables, num_ranks).problems)
    texts.push_back(to_string(problem));
  return texts;
}

TEST(Examine, AutocastIsRefusedWhereTheModelComputesInAnotherDtype) {
  for (const std::string strategy : {"--distributed.strategy=fsdp2", "--distributed.strategy=ddp"}) {
    const std::string half = "--distributed.autocast_dtype=bfloat16";
    EXPECT_THAT(problems_of({strategy, half}, 2), ElementsAre(AllOf(HasSubstr("distributed.autocast_dtype: bfloat16 is not supported"),
                                                                    HasSubstr("here float32"), HasSubstr("model.torch_dtype: bfloat16"))));
    EXPECT_THAT(problems_of({strategy, half, "--model.torch_dtype=bfloat16"}, 2), IsEmpty());
    EXPECT_THAT(problems_of({strategy, "--distributed.autocast_dtype=float32"}, 2), IsEmpty());
    EXPECT_THAT(problems_of({strategy, half}, 1), IsEmpty()) << "one process has no strategy";
  }
}

TEST(Examine, AHeadInAnotherPrecisionIsRefusedWhereItCannotBe) {
  const auto problems = [](const std::string& head, const std::string& model, bool tied) {
    return problems_of({"--distributed.ep_size=2", "--distributed.moe.lm_head_precision=" + head, "--model.torch_dtype=" + model,
                        std::string("--model.config.tie_word_embeddings=") + (tied ? "true" : "false")},
                       2);
  };
  const auto refusal = [](const char* dtype) { return HasSubstr(std::string("lm_head_precision: ") + dtype + " is not supported"); };
  EXPECT_THAT(problems("bfloat16", "float32", false), Contains(refusal("bfloat16")));
  EXPECT_THAT(problems("float32", "bfloat16", true), Contains(refusal("float32")));
  EXPECT_THAT(problems("float32", "bfloat16", false), Not(Contains(refusal("float32"))));
  EXPECT_THAT(problems("float32", "float32", true), Not(Contains(refusal("float32"))));
}

}  // namespace
}  // namespace tessera::train
