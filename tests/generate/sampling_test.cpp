#include "tessera/generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "support/support.h"

namespace tessera::generate {
namespace {

data::TokenId choose(std::vector<float> logits, const SamplingOptions& options, std::vector<data::TokenId> previous = {}) {
  return choose_token(logits, previous, options);
}

/// How often each token is chosen at positions 0, 1, 2, …
std::map<data::TokenId, double> frequencies(const std::vector<float>& logits, const SamplingOptions& options, int draws) {
  std::map<data::TokenId, double> counts;
  std::vector<data::TokenId> previous;
  for (int draw = 0; draw < draws; ++draw) {
    counts[choose(logits, options, previous)] += 1.0 / draws;
    previous.push_back(0);
  }
  return counts;
}

TEST(Sampling, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  EXPECT_EQ(choose({0.5F, 2.0F, -1.0F, 2.0F}, {}), 1);
  EXPECT_EQ(choose({-3.0F}, {}), 0);
}

TEST(Sampling, FrequenciesAreTheSoftmaxAtItsTemperature) {
  const std::vector<float> logits = {0.0F, 1.0F, -0.5F, 2.0F};
  constexpr int kDraws = 40'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    const auto counts = frequencies(logits, {.temperature = temperature, .seed = 3}, kDraws);
    double total = 0.0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double expected = std::exp(logits[id] / temperature) / total;
      EXPECT_NEAR(counts.at(static_cast<data::TokenId>(id)), expected, 5.0 * std::sqrt(expected * (1.0 - expected) / kDraws));
    }
  }
}

TEST(Sampling, LargeLogitsDoNotOverflow) {
  EXPECT_EQ(choose({1e30F, 0.0F, 3e30F}, {.temperature = 1.0}), 2);
  EXPECT_EQ(choose({-std::numeric_limits<float>::infinity(), 4.0F}, {.temperature = 1.0}), 1);
}

TEST(Sampling, TopKKeepsTheLargest) {
  const auto counts = frequencies({0.0F, 1.0F, 1.0F, 2.0F, 1.0F}, {.temperature = 3.0, .top_k = 3}, 2000);
  EXPECT_EQ(counts.size(), 3U);
  for (const data::TokenId id : {1, 2, 3}) EXPECT_TRUE(counts.contains(id)) << "of equals the lowest ids are kept";
  EXPECT_EQ(frequencies({0.0F, 1.0F}, {.temperature = 3.0, .top_k = 50}, 500).size(), 2U);
  EXPECT_EQ(frequencies({0.0F, 1.0F}, {.temperature = 3.0, .top_k = 1}, 500).size(), 1U);
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> logits = {std::log(2.0F), 0.0F, std::log(4.0F), 0.0F};
  EXPECT_EQ(frequencies(logits, {.temperature = 1.0, .top_p = 0.45}, 500).size(), 1U);
  EXPECT_EQ(frequencies(logits, {.temperature = 1.0, .top_p = 0.55}, 500).size(), 2U);
  EXPECT_EQ(frequencies(logits, {.temperature = 1.0, .top_p = 0.8}, 500).size(), 3U);
  EXPECT_EQ(frequencies(logits, {.temperature = 1.0, .top_p = 1.0}, 500).size(), 4U);
  const auto counts = frequencies(logits, {.temperature = 1.0, .top_p = 0.7}, 20'000);
  EXPECT_NEAR(counts.at(2), 2.0 / 3.0, 0.02) << "what is kept is normalised again";
}

TEST(Sampling, TopPCountsWithinTopK) {
  const std::vector<float> logits = {std::log(2.0F), 0.0F, std::log(4.0F), 0.0F};
  EXPECT_EQ(frequencies(logits, {.temperature = 1.0, .top_k = 2, .top_p = 0.6}, 500).size(), 1U) << "4 / 6 of the two kept is enough";
}

TEST(Sampling, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  std::vector<float> logits = {2.0F, -1.0F, 3.0F, 0.5F};
  const std::vector<data::TokenId> previous = {0, 1, 0, 1};
  EXPECT_EQ(choose_token(logits, previous, {.repetition_penalty = 4.0}), 2);
  EXPECT_EQ(logits, (std::vector<float>{0.5F, -4.0F, 3.0F, 0.5F})) << "once each, however often a token was seen";
  EXPECT_EQ(choose({2.0F, 1.9F}, {.repetition_penalty = 1.2}, {0}), 1);
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  const std::vector<float> logits(64, 0.0F);
  const auto text = [&](std::uint64_t seed) {
    std::vector<data::TokenId> ids;
    for (int i = 0; i < 40; ++i) ids.push_back(choose(logits, {.temperature = 1.0, .seed = seed}, ids));
    return ids;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Sampling, RefusesValuesOutOfRange) {
  using test::error_of;
  EXPECT_NE(error_of([] { check({.temperature = -0.1}); }).find("temperature -0.1 is negative"), std::string::npos);
  EXPECT_NE(error_of([] { check({.top_k = -1}); }).find("top-k -1"), std::string::npos);
  for (const double top_p : {0.0, 1.5, std::nan("")})
    EXPECT_NE(error_of([top_p] { check({.top_p = top_p}); }).find("out of range"), std::string::npos);
  EXPECT_NE(error_of([] { check({.repetition_penalty = 0.0}); }).find("not positive"), std::string::npos);
  const std::string both = error_of([] { check({.temperature = -0.1, .top_k = -1}); });
  EXPECT_NE(both.find("temperature"), std::string::npos);
  EXPECT_NE(both.find("top-k"), std::string::npos);
  check({});
}

}  // namespace
}  // namespace tessera::generate
