#include "tessera/parallel/context/split.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tessera::parallel {
namespace {

std::int64_t num_pairs(const std::vector<model::TokenRun>& runs, const std::vector<std::int64_t>& starts) {
  std::int64_t pairs = 0;
  for (const model::TokenRun& run : runs)
    for (std::int64_t i = 0; i < run.length; ++i) pairs += run.position + i - starts[static_cast<std::size_t>(run.document)] + 1;
  return pairs;
}

TEST(ContextSplit, GivesEveryTokenToOneRank) {
  for (const std::int64_t size : {2, 3, 4, 8}) {
    const RowSplit split = split_row(101, {0, 1, 30, 95}, size);
    std::set<std::int64_t> seen;
    for (const auto& runs : split.runs_of_ranks) {
      std::set<std::int64_t> places;
      for (const model::TokenRun& run : runs) {
        for (std::int64_t i = 0; i < run.length; ++i) {
          EXPECT_TRUE(seen.insert(run.position + i).second);
          EXPECT_TRUE(places.insert(run.place + i).second);
        }
      }
      EXPECT_LT(*places.rbegin(), split.width);
    }
    EXPECT_EQ(seen.size(), 101U);
  }
}

TEST(ContextSplit, BalancesTheWork) {
  const RowSplit split = split_row(4096, {}, 4);
  EXPECT_EQ(split.width, 1024);
  for (const auto& runs : split.runs_of_ranks) EXPECT_NEAR(static_cast<double>(num_pairs(runs, {0})), 4096.0 * 4097.0 / 8.0, 4096.0);
  const RowSplit packed = split_row(4096, {0, 1000}, 4);
  std::vector<std::int64_t> pairs;
  for (const auto& runs : packed.runs_of_ranks) pairs.push_back(num_pairs(runs, {0, 1000}));
  EXPECT_LT(static_cast<double>(*std::ranges::max_element(pairs)), 1.02 * static_cast<double>(*std::ranges::min_element(pairs)));
}

TEST(ContextSplit, LabelsGoWithTheirTokens) {
  const at::Tensor ids = at::arange(20, at::kLong).view({2, 10});
  const model::Inputs whole{ids, at::arange(10, at::kLong).repeat({2, 1}), {10, 7}, {0, 1}, {}};
  std::multiset<std::int64_t> seen;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const ContextShare share = split_context(whole, ids + 100, 3, rank);
    EXPECT_EQ(share.inputs.length(), 4);  // 12 places for 10 tokens
    EXPECT_EQ(share.inputs.lengths, whole.lengths);
    const at::Tensor labels = share.labels_BT.reshape({-1}), tokens = share.inputs.input_ids_BT.reshape({-1});
    for (std::int64_t i = 0; i < labels.size(0); ++i) {
      const auto label = labels[i].item<std::int64_t>(), token = tokens[i].item<std::int64_t>();
      if (label == -100) continue;
      EXPECT_EQ(label, token + 100);
      EXPECT_EQ(share.inputs.position_ids_BT.reshape({-1})[i].item<std::int64_t>(), token % 10);
      seen.insert(token);
    }
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST(ContextSplit, OneRankHasEverything) {
  const at::Tensor ids = at::arange(6, at::kLong).view({1, 6});
  const ContextShare share = split_context({ids, ids, {6}, {0}, {}}, ids, 1, 0);
  EXPECT_TRUE(share.labels_BT.is_same(ids));
  EXPECT_TRUE(share.inputs.runs_of_ranks.empty());
}

}  // namespace
}  // namespace tessera::parallel
