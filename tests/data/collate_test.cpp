#include "tessera/data/collate.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sample sample_of(std::vector<std::int64_t> ids, std::int64_t number) {
  Sample sample;
  sample.labels.assign(ids.begin() + 1, ids.end());
  sample.labels.push_back(kIgnoredLabel);
  sample.input_ids = std::move(ids);
  sample.number = number;
  return sample;
}

TEST(Collate, PadsToTheLongestSample) {
  const std::vector<Sample> samples = {sample_of({5, 6, 7}, 11), sample_of({8}, 12)};
  const Batch batch = collate(samples, {.pad_id = 2});
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 3);
  EXPECT_THAT(batch.input_ids, ElementsAre(5, 6, 7, 8, 2, 2));
  EXPECT_THAT(batch.labels, ElementsAre(6, 7, -100, -100, -100, -100));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 0, 0, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 1));
  EXPECT_THAT(batch.numbers, ElementsAre(11, 12));
  EXPECT_THAT(batch.document_starts, IsEmpty());
  EXPECT_EQ(num_label_tokens(batch), 2);
  EXPECT_EQ(num_tokens(batch), 4);
}

TEST(Collate, RoundsTheLengthUp) {
  const std::vector<Sample> samples = {sample_of({5, 6, 7}, 0)};
  EXPECT_EQ(collate(samples, {.pad_multiple = 8}).length, 8);
  EXPECT_EQ(collate(samples, {.pad_multiple = 3}).length, 3);
  EXPECT_EQ(collate(samples, {.fixed_length = 5}).length, 5);
}

TEST(Collate, HonoursTheDatasetsPadding) {
  std::vector<Sample> samples = {sample_of({5, 6, 7}, 0)};
  samples[0].padded_length = 6;
  const Batch batch = collate(samples, {});
  EXPECT_EQ(batch.length, 6);
  EXPECT_THAT(batch.lengths, ElementsAre(3));
}

TEST(Collate, PositionsRestartAtDocuments) {
  std::vector<Sample> samples = {sample_of({1, 2, 3, 4, 5}, 0), sample_of({6, 7}, 1)};
  samples[0].document_starts = {0, 2, 3};
  const Batch batch = collate(samples, {.pad_multiple = 6});
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(batch.document_starts, ElementsAre(ElementsAre(0, 2, 3), ElementsAre(0)));
}

TEST(Collate, RefusesASampleLongerThanTheFixedLength) {
  const std::vector<Sample> samples = {sample_of({1, 2, 3}, 0)};
  EXPECT_THAT(test::error_of([&] { collate(samples, {.fixed_length = 2}); }), HasSubstr("a sample has 3 tokens, but every row is to have 2"));
}

TEST(FillerBatch, TeachesNothing) {
  const Batch batch = filler_batch({.pad_id = 9, .pad_multiple = 4});
  EXPECT_EQ(batch.rows, 1);
  EXPECT_THAT(batch.input_ids, ElementsAre(9, 9, 9, 9));
  EXPECT_EQ(num_label_tokens(batch), 0);
  EXPECT_THAT(batch.numbers, ElementsAre(kFillerNumber));
}

}  // namespace
}  // namespace tessera::data
