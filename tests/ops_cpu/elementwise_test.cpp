#include "tessera/ops/cpu/elementwise.h"

#include <bit>

#include "ops_cpu/kernel_support.h"
#include "tessera/ops/cpu/dropout.h"
#include "tessera/ops/cpu/optimizer.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, ElementTypes);

TEST(Elementwise, SumOfSquares) {
  for (const std::int64_t size : {0, 1, 33, 200001}) {
    const auto x = random_array<float>(size, 1);
    double expected = 0.0;
    for (double value : x.values()) expected += value * value;
    on_each_isa([&](Isa isa) { EXPECT_NEAR(sum_of_squares(x.data(), size, isa), expected, 1e-12 * expected); });
  }
  Array<float> huge(3);
  assign(huge[1], 1e30);
  on_each_isa([&](Isa isa) { EXPECT_NEAR(sum_of_squares(huge.data(), 3, isa) / (huge.at(1) * huge.at(1)), 1.0, 1e-12); });
}

TEST(Elementwise, FirstNonfinite) {
  auto x = random_array<float>(150001, 1);
  assign(x[3], 3.0e38);  // large is not infinite
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), -1); });
  assign(x[150000], kNan);
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), 150000); });
  assign(x[70000], -kInfinity);
  on_each_isa([&](Isa isa) { EXPECT_EQ(first_nonfinite(x.data(), x.size(), isa), 70000); });
}

TEST(Elementwise, ConvertsEveryKindOfNumber) {
  std::vector<bfloat16> narrow;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) narrow.push_back({static_cast<std::uint16_t>(bits)});
  on_each_isa([&](Isa isa) {
    std::vector<float> wide(narrow.size());
    convert(narrow.data(), wide.data(), std::ssize(narrow), isa);
    for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), i << 16);
  });
}

/// What kernels store as bf16 is what core/dtype.h rounds to, bit for bit, NaN included: here the copy that Adam makes of its parameters.
TEST(Elementwise, RoundsEveryKindOfNumberAsTheRestOfTheProgram) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) values.push_back(std::bit_cast<float>(high << 16 | low));
  on_each_isa([&](Isa isa) {
    std::vector<float> parameters = values, first(values.size()), second(values.size()), gradient(values.size());
    std::vector<bfloat16> narrow(values.size());
    adam_step({std::ssize(values), parameters.data(), first.data(), second.data(), gradient.data(), narrow.data()}, isa);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(narrow[i].bits, float_to_bfloat16(parameters[i])) << values[i];
  });
}

TYPED_TEST(Elementwise, ColumnSums) {
  const auto a = random_array<TypeParam>(40013, 1);
  on_each_isa([&](Isa isa) {
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
