// What a dataset's `split` may say.
#include "tessera/config/split.h"

#include <gmock/gmock.h>

#include "config/section_recipe.h"

namespace tessera::config {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(DatasetSection, SplitsThatKeepNothingWhateverTheData) {
  const auto of = [](const std::string& split) { return "dataset: {_target_: tulu3, split: \"" + split + "\"}"; };
  for (const char* split :
       {"train[5:1]", "train[5:5]", "train[:0]", "train[-1:-5]", "train[20%:10%]", "train[-30%:50%]", "train[100%:]", "train[:-100%]"})
    EXPECT_THAT(mistakes_of(of(split)), HasSubstr("r.yaml:1: dataset.split: \"" + std::string(split) + "\" keeps no samples")) << split;
  for (const char* split : {"train[", "train[5]", "train[a:b]", "train[:3x%]", "train[:3", "train[:9999999999999999999]"})
    EXPECT_THAT(mistakes_of(of(split)), HasSubstr("is not a split")) << split;
  for (const char* split : {"", "train", "train[:]", "train[:128]", "train[10:20]", "train[5:-5]", "train[-5:5]", "train[-5:]", "train[:10%]",
                            "train[10:1%]", "train[0:1%]", "train[-30%:80%]", "train[99%:]"})
    EXPECT_NO_THROW(with(of(split))) << split;
  EXPECT_THAT(refusals_of(of("train+validation")), Contains("dataset.split: \"train+validation\" is not supported"));
}

TEST(DatasetSection, SharesOfMegatronsFiles) {
  const auto of = [](const std::string& split) { return "dataset: {_target_: megatron, paths: [p], split: " + split + "}"; };
  for (const char* split : {"train", "\"1,2,3,4\"", "\"-1,2\"", "inf"})
    EXPECT_THAT(mistakes_of(of(split)), HasSubstr("is not up to three shares")) << split;
  EXPECT_THAT(mistakes_of(of("\"0,0,0\"")), HasSubstr("sums to zero"));
  for (const char* split : {"null", "1", "\"900,50,50\"", "\"0.99, 0.01, 0.00\""}) EXPECT_NO_THROW(with(of(split))) << split;
}

}  // namespace
}  // namespace tessera::config
