#include "tessera/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

using Words = std::array<std::uint32_t, 4>;

struct KnownAnswer {
  Words counter;
  std::array<std::uint32_t, 2> key;
  Words expected;
};

/// The "philox4x32 10" lines of tests/kat_vectors in the Random123 distribution, https://github.com/DEShawResearch/random123.
constexpr std::array<KnownAnswer, 3> kKnownAnswers{{
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
}};

TEST(Random, PhiloxGivesThePublishedAnswers) {
  for (const KnownAnswer& answer : kKnownAnswers) EXPECT_EQ(philox4x32(answer.counter, answer.key), answer.expected);
}

/// Vectors of the FNV authors, http://www.isthe.com/chongo/tech/comp/fnv: 64-bit FNV-1a.
TEST(Random, NamesHashAsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ULL);
}

TEST(Random, IsAFunctionOfSeedPurposeSubjectAndElement) {
  const CounterRandom random(42, "init", "model.embed_tokens.weight");
  EXPECT_EQ(random.bits(7), CounterRandom(42, "init", "model.embed_tokens.weight").bits(7));
  EXPECT_NE(random.bits(7), random.bits(8));
  EXPECT_NE(random.bits(7), CounterRandom(43, "init", "model.embed_tokens.weight").bits(7));
  EXPECT_NE(random.bits(7), CounterRandom(42, "dropout", "model.embed_tokens.weight").bits(7));
  EXPECT_NE(random.bits(7), CounterRandom(42, "init", "lm_head.weight").bits(7));
  EXPECT_EQ(CounterRandom(1, "x", "name").key(), CounterRandom(1, "x", hash_name("name")).key());
}

/// Saved runs must continue with the same numbers: these may never change. (Computed by a separate implementation.)
TEST(Random, ValuesStayTheSameForEver) {
  const CounterRandom shuffle(42, "shuffle", std::uint64_t{3});
  EXPECT_EQ(shuffle.key(), 0xce347c6d0aa17a52ULL);
  EXPECT_EQ(shuffle.bits(0), 0xdc5df789d06ca608ULL);
  const CounterRandom init(42, "init", "model.embed_tokens.weight");
  constexpr std::uint64_t kElement = (std::uint64_t{1} << 32) + 7;
  EXPECT_EQ(init.bits(kElement), 0xe5c6a7b8f255fa30ULL);
  EXPECT_DOUBLE_EQ(init.normal(kElement), -1.8162808933726824);
}

TEST(Random, ElementsBeyondFourBillionDiffer) {
  const CounterRandom random(0, "init", "w");
  EXPECT_NE(random.bits(5), random.bits(5 + (std::uint64_t{1} << 32)));
}

constexpr int kDraws = 200'000;

TEST(Random, UniformHasItsMomentsAndStaysInRange) {
  const CounterRandom random(1, "test", "uniform");
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform(i);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    squares += value * value;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
}

TEST(Random, NormalHasItsMoments) {
  const CounterRandom random(1, "test", "normal");
  std::array<double, 4> moments{};
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal(i);
    ASSERT_TRUE(std::isfinite(value));
    for (double power = value; double& moment : moments) {
      moment += power / kDraws;
      power *= value;
    }
  }
  EXPECT_NEAR(moments[0], 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(moments[1], 1, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(moments[2], 0, 5 * std::sqrt(15.0 / kDraws));
  EXPECT_NEAR(moments[3], 3, 5 * std::sqrt(96.0 / kDraws));
}

TEST(Random, BelowIsEvenlySpread) {
  const CounterRandom random(9, "test", "below");
  constexpr std::uint64_t kBound = 7;
  std::vector<double> counts(kBound);
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t value = random.below(kBound, i);
    ASSERT_LT(value, kBound);
    counts[value] += 1;
  }
  const double expected = double(kDraws) / kBound;
  double chi_squared = 0;
  for (const double count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 22.46);  // 0.999 quantile with 6 degrees of freedom
  EXPECT_EQ(random.below(1, 5), 0U);
}

}  // namespace
}  // namespace tessera
