#include "tessera/data/dataset/mock.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace tessera::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Lt;

TEST(MockTokensDataset, RowsPredictTheirOwnNextTokens) {
  const MockTokensDataset dataset({.num_samples = 10, .seq_length = 200, .vocab_size = 7});
  EXPECT_EQ(dataset.size(), 10);
  const Sample sample = dataset.sample(3);
  ASSERT_EQ(sample.input_ids.size(), 200U);
  EXPECT_THAT(sample.input_ids, Each(AllOf(Ge(0), Lt(7))));
  EXPECT_TRUE(std::equal(sample.labels.begin(), sample.labels.end() - 1, sample.input_ids.begin() + 1));
  EXPECT_EQ(sample.labels.back(), kIgnoredLabel);
  EXPECT_EQ(sample.number, 3);
}

TEST(MockTokensDataset, DependsOnSeedAndIndex) {
  const MockTokensDataset dataset({.seq_length = 50});
  EXPECT_EQ(dataset.sample(3).input_ids, dataset.sample(3).input_ids);
  EXPECT_NE(dataset.sample(3).input_ids, dataset.sample(4).input_ids);
  EXPECT_NE(dataset.sample(3).input_ids, MockTokensDataset({.seq_length = 50, .seed = 1}).sample(3).input_ids);
}

TEST(MockSentencesDataset, LengthsFollowTheDistribution) {
  const MockSentencesDataset dataset({.num_sentences = 2000, .mean_length = 30.0, .deviation = 5.0, .vocab_size = 50, .max_length = 40});
  double sum = 0.0;
  std::size_t longest = 0;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const Sample sample = dataset.sample(index);
    sum += static_cast<double>(sample.input_ids.size() - 1);
    longest = std::max(longest, sample.input_ids.size());
    EXPECT_EQ(sample.input_ids.back(), 1);
    EXPECT_THAT(sample.input_ids, Each(AllOf(Ge(1), Lt(50))));
  }
  EXPECT_NEAR(sum / 2000.0, 29.4, 0.5);
  EXPECT_LE(longest, 41U);
}

TEST(MockSentencesDataset, WithoutDeviationEverySentenceIsAsLong) {
  const MockSentencesDataset dataset({.mean_length = 4096.0, .deviation = 0.0, .max_length = 4096});
  EXPECT_EQ(dataset.sample(0).input_ids.size(), 4097U);
}

}  // namespace
}  // namespace tessera::data
