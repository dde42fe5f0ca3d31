#include "tessera/data/packing.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/data/collate.h"

namespace tessera::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Packs = std::vector<std::vector<std::int64_t>>;

Packs packs_of(const PackingPlan& plan) {
  Packs packs;
  for (std::size_t pack = 0; pack + 1 < plan.starts.size(); ++pack)
    packs.emplace_back(plan.documents.begin() + plan.starts[pack], plan.documents.begin() + plan.starts[pack + 1]);
  return packs;
}

TEST(PlanPacks, InOrderWhatDoesNotFitOpensTheNextPack) {
  const std::vector<std::int32_t> lengths = {4, 4, 3, 10, 1, 9, 2};
  const PackingPlan plan = plan_packs(lengths, {.size = 10});
  EXPECT_EQ(packs_of(plan), (Packs{{0, 1}, {2}, {3}, {4, 5}, {6}}));
  EXPECT_EQ(plan.num_tokens, 33);
}

// Worked out by hand from the rule: descending lengths, each into the least-filled pack when it has room there, else into a new one.
TEST(PlanPacks, BalancedPutsDescendingLengthsIntoTheLeastFilledPack) {
  const std::vector<std::int32_t> lengths = {2, 7, 5, 5, 3, 1, 6};
  // 7 | 6 | 5, and 5 to it | 3 to the pack of 6 | 2 to the pack of 7 | 1 to the first of two packs of 9
  const PackingPlan plan = plan_packs(lengths, {.size = 10, .strategy = PackingStrategy::Balanced});
  EXPECT_EQ(packs_of(plan), (Packs{{1, 0, 5}, {6, 4}, {2, 3}}));
}

TEST(PlanPacks, MaxPacksEndsPacking) {
  const std::vector<std::int32_t> lengths = {6, 6, 6, 4};
  const PackingPlan in_order = plan_packs(lengths, {.size = 10, .max_packs = 2});
  EXPECT_EQ(packs_of(in_order), (Packs{{0}, {1}}));
  EXPECT_EQ(in_order.num_unused, 2);
  const PackingPlan balanced = plan_packs(lengths, {.size = 10, .strategy = PackingStrategy::Balanced, .max_packs = 2});
  EXPECT_EQ(packs_of(balanced), (Packs{{0, 3}, {1}}));
  EXPECT_EQ(balanced.num_unused, 1);
}

TEST(PlanPacks, LongDocumentsAreDroppedOrRefused) {
  const std::vector<std::int32_t> lengths = {3, 11, 4, 12};
  const PackingPlan plan = plan_packs(lengths, {.size = 10, .drop_long = true});
  EXPECT_EQ(packs_of(plan), (Packs{{0, 2}}));
  EXPECT_EQ(plan.num_too_long, 2);
  const std::string error = test::error_of([&] { plan_packs(lengths, {.size = 10}); });
  EXPECT_THAT(error,
              AllOf(HasSubstr("2 sample(s) are longer than a pack of 10 tokens"), HasSubstr("number 1 with 11"), HasSubstr("drop_long_samples")));
  EXPECT_THAT(test::error_of([&] { plan_packs(lengths, {.size = 2, .drop_long = true}); }), HasSubstr("no sample fits into a pack of 2 tokens"));
}

/// Whatever the lengths, every document that fits lies in exactly one pack and no pack is too full.
TEST(PlanPacks, EveryDocumentOnce) {
  std::vector<std::int32_t> lengths;
  for (std::int32_t index = 0; index < 500; ++index) lengths.push_back(1 + (index * 7919) % 97);
  for (const PackingStrategy strategy : {PackingStrategy::InOrder, PackingStrategy::Balanced}) {
    const PackingPlan plan = plan_packs(lengths, {.size = 100, .strategy = strategy});
    std::vector<std::int64_t> documents = plan.documents;
    std::ranges::sort(documents);
    for (std::int64_t index = 0; index < 500; ++index) ASSERT_EQ(documents[static_cast<std::size_t>(index)], index);
    for (const auto& pack : packs_of(plan)) {
      std::int64_t filled = 0;
      for (const std::int64_t document : pack) filled += lengths[static_cast<std::size_t>(document)];
      EXPECT_LE(filled, 100);
    }
  }
}

/// Document i is i + 1 tokens 10 · i, 10 · i + 1, …
class Documents : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  Sample sample(std::int64_t index) const override {
    Sample sample;
    for (std::int64_t t = 0; t <= index; ++t) {
      sample.input_ids.push_back(10 * index + t);
      sample.labels.push_back(t < index ? 10 * index + t + 1 : kIgnoredLabel);
    }
    sample.number = index;
    return sample;
  }
  std::string description() const override { return "documents"; }
};

TEST(PackedDataset, LaysDocumentsEndToEndAndKeepsTheirBoundaries) {
  const PackedDataset packs(std::make_shared<Documents>(), {.size = 7}, 2);
  ASSERT_EQ(packs.size(), 2);
  const Sample first = packs.sample(0);
  EXPECT_THAT(first.input_ids, ElementsAre(0, 10, 11, 20, 21, 22));
  EXPECT_THAT(first.labels, ElementsAre(-100, 11, -100, 21, 22, -100));
  EXPECT_THAT(first.document_starts, ElementsAre(0, 1, 3));
  const Batch batch = collate(std::span(&first, 1), {.pad_id = 5});
  EXPECT_THAT(batch.input_ids, ElementsAre(0, 10, 11, 20, 21, 22, 5));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 0, 1, 0, 1, 2, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(6));
  EXPECT_THAT(batch.document_starts, ElementsAre(ElementsAre(0, 1, 3)));
}

TEST(PackedDataset, TellsItsPadding) {
  const PackedDataset packs(std::make_shared<Documents>(), {.size = 8, .drop_long = true}, 1);
  EXPECT_EQ(packs.description(), "2 packs of 8 tokens with 4 samples: 5.0 tokens a pack, 37.5 % padding; documents");
  const PackedDataset cut(std::make_shared<Documents>(), {.size = 3, .max_packs = 1, .drop_long = true}, 1);
  EXPECT_THAT(cut.description(), AllOf(HasSubstr("1 sample(s) longer than a pack left out"), HasSubstr("1 beyond max_packs left out")));
}

}  // namespace
}  // namespace tessera::data
