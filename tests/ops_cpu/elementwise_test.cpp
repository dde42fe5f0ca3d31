#include "tessera/ops/cpu/elementwise.h"

#include "ops_cpu/kernel_support.h"
#include "tessera/ops/cpu/dropout.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, ElementTypes);

TYPED_TEST(Elementwise, SumOfSquares) {
  for (const std::int64_t size : {0, 1, 33, 200001}) {
    const auto x = random_array<TypeParam>(size, 1);
    double expected = 0.0;
    for (double value : x.values()) expected += value * value;
    on_each_isa([&](Isa isa) { EXPECT_NEAR(sum_of_squares(x.data(), size, isa), expected, 1e-12 * expected); });
  }
  Array<TypeParam> huge(3);
  assign(huge[1], 1e30);
  on_each_isa([&](Isa isa) { EXPECT_NEAR(sum_of_squares(huge.data(), 3, isa) / (huge.at(1) * huge.at(1)), 1.0, 1e-12); });
}

TYPED_TEST(Elementwise, FirstNonfinite) {
  auto x = random_array<TypeParam>(150001, 1);
  assign(x[3], 3.0e38);  // large is not infinite
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), -1); });
  assign(x[150000], kNan);
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), 150000); });
  assign(x[70000], -kInfinity);
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), 70000); });
}

TEST(Elementwise, ConvertsEveryKindOfNumber) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const std::uint32_t bits = high << 16 | low;
      float value;
      std::memcpy(&value, &bits, 4);
      values.push_back(value);
    }
  }
  const auto size = static_cast<std::int64_t>(values.size());
  on_each_isa([&](Isa isa) {
    std::vector<bfloat16> narrow(values.size());
    std::vector<float> wide(values.size());
    convert(values.data(), narrow.data(), size, isa);
    convert(narrow.data(), wide.data(), size, isa);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(wide[i]));
        continue;
      }
      ASSERT_EQ(narrow[i].bits, float_to_bfloat16(values[i])) << values[i];
      ASSERT_EQ(wide[i], bfloat16_to_float(narrow[i].bits));
    }
  });
}

TYPED_TEST(Elementwise, AccumulateAddScaleAndColumnSums) {
  using T = TypeParam;
  constexpr std::int64_t kSize = 40013;
  const auto a = random_array<T>(kSize, 1), b = random_array<T>(kSize, 2);
  const auto start = random_array<float>(kSize, 3);
  on_each_isa([&](Isa isa) {
    Array<float> total = start;
    accumulate(total.data(), a.data(), 0.5f, kSize, isa);
    Array<T> c(kSize);
    add(a.data(), b.data(), c.data(), kSize, isa);
    Array<float> scaled = start;
    scale(scaled.data(), 3.0f, kSize, isa);
    for (std::int64_t i = 0; i < kSize; ++i) {
      ASSERT_NEAR(total.at(i), start.at(i) + 0.5 * a.at(i), 1e-6);
      T expected;
      assign(expected, a.at(i) + b.at(i));
      ASSERT_EQ(c.at(i), to_double(expected));
      ASSERT_EQ(scaled.at(i), static_cast<float>(start.at(i)) * 3.0f);
    }
    Array<float> sums(17, 1.0);
    add_column_sums(a.data(), 1000, 17, 40, sums.data(), isa);
    for (std::int64_t column = 0; column < 17; ++column) {
      double expected = 1.0;
      for (std::int64_t row = 0; row < 1000; ++row) expected += a.at(row * 40 + column);
      EXPECT_NEAR(sums.at(column), expected, 1e-4);
    }
  });
}

TYPED_TEST(Elementwise, DropoutAddFollowsTheFormula) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 4, kWidth = 75;
  const auto x = random_array<T>(kRows * kWidth, 1), residual = random_array<T>(kRows * kWidth, 2);
  const std::vector<std::uint64_t> keys{dropout_row_key(1, 2, 3, 4), dropout_row_key(1, 2, 3, 5), 7, ~0ull};
  for (const float probability : {0.0f, 0.25f}) {
    std::vector<double> expected;
    for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
      const bool kept = dropout_word(keys[i / kWidth], static_cast<std::uint32_t>(i % kWidth + 100)) >= dropout_threshold(probability);
      expected.push_back(residual.at(i) + (kept ? x.at(i) / (1.0 - probability) : 0.0));
    }
    on_each_isa([&](Isa isa) {
      Array<T> y = residual;
      dropout_add(DropoutAdd<T>{kRows, kWidth, x.data(), y.data(), keys.data(), 100, probability, y.data()}, isa);
      expect_close(y, expected, 1e-6, "y");
    });
  }
}

TEST(Dropout, KeepsTheRightShareWithoutCorrelation) {
  constexpr std::uint32_t kElements = 4096;
  const std::uint32_t threshold = dropout_threshold(0.1f);
  std::int64_t dropped = 0, both = 0, neighbours = 0;
  for (std::uint64_t row = 0; row < 256; ++row) {
    const std::uint64_t key = dropout_row_key(42, 7, 3, row), next_key = dropout_row_key(42, 7, 3, row + 1);
    for (std::uint32_t i = 0; i < kElements; ++i) {
      const bool here = dropout_word(key, i) < threshold;
      dropped += here;
      both += here && dropout_word(next_key, i) < threshold;
      neighbours += here && dropout_word(key, i + 1) < threshold;
    }
  }
  const double count = 256.0 * kElements;
  EXPECT_NEAR(static_cast<double>(dropped) / count, 0.1, 0.0015);      // five standard deviations
  EXPECT_NEAR(static_cast<double>(both) / count, 0.01, 0.0005);        // rows
  EXPECT_NEAR(static_cast<double>(neighbours) / count, 0.01, 0.0005);  // elements
}

}  // namespace
}  // namespace tessera::ops::cpu::test
