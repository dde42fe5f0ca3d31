#include "tessera/ops/cpu/routed_rows.h"

#include <omp.h>

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class RoutedRows : public ::testing::Test {};
TYPED_TEST_SUITE(RoutedRows, ElementTypes);

// Five rows with 2, 0, 3, 1 and 1 pairs; pair 4 goes nowhere.
constexpr std::int64_t kRoutedWidth = 37;
const std::vector<std::int64_t> kStarts{0, 2, 2, 5, 6, 7}, kPlaces{3, 0, 5, 1, -1, 2, 4};
// The same seen from the places.
const std::vector<std::int64_t> kRoutedRows{0, 2, 3, 0, 4, 2}, kPairs{1, 3, 5, 0, 6, 2};

TYPED_TEST(RoutedRows, SumsWhatComesBack) {
  using T = TypeParam;
  const auto input = random_array<T>(6 * kRoutedWidth, 1);
  const auto weights = random_array<float>(7, 2);
  for (const bool weighted : {false, true}) {
    std::vector<double> expected(5 * kRoutedWidth, 0.0);
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::int64_t pair = kStarts[row]; pair < kStarts[row + 1]; ++pair) {
        const std::int64_t place = kPlaces[static_cast<std::size_t>(pair)];
        for (std::int64_t c = 0; place >= 0 && c < kRoutedWidth; ++c)
          expected[row * kRoutedWidth + static_cast<std::size_t>(c)] += (weighted ? weights.at(pair) : 1.0) * input.at(place * kRoutedWidth + c);
      }
    }
    on_each_isa([&](Isa isa) {
      Array<T> output(5 * kRoutedWidth, kNan);
      sum_of_places(SumOfPlaces<T>{5, kRoutedWidth, kStarts.data(), kPlaces.data(), weighted ? weights.data() : nullptr, input.data(), output.data()},
                    isa);
      expect_close(output, expected, 1e-6, "output");
    });
  }
}

TYPED_TEST(RoutedRows, SendsRowsToTheirPlaces) {
  using T = TypeParam;
  const auto input = random_array<T>(5 * kRoutedWidth, 1), partner = random_array<T>(6 * kRoutedWidth, 2);
  const auto weights = random_array<float>(7, 3);
  for (const bool weighted : {false, true}) {
    std::vector<double> expected, dots(7, 0.25);
    for (std::size_t place = 0; place < kRoutedRows.size(); ++place) {
      double& dot = dots[static_cast<std::size_t>(kPairs[place])] = 0.0;
      for (std::int64_t c = 0; c < kRoutedWidth; ++c) {
        const double value = input.at(kRoutedRows[place] * kRoutedWidth + c);
        expected.push_back(weighted ? weights.at(kPairs[place]) * value : value);
        dot += value * partner.at(static_cast<std::int64_t>(place) * kRoutedWidth + c);
      }
    }
    on_each_isa([&](Isa isa) {
      Array<T> output(6 * kRoutedWidth, kNan);
      Array<float> sums(7, 0.25);  // pair 4 went nowhere: its number stays
      RowsToPlaces<T> args{6, kRoutedWidth, kRoutedRows.data(), kPairs.data(), weighted ? weights.data() : nullptr, input.data(), output.data()};
      args.partner = partner.data();
      args.dots = sums.data();
      rows_to_places(args, isa);
      expect_close(output, expected, 1e-6, "output");
      expect_close(sums, dots, 1e-6, "dots");
    });
  }
}

}  // namespace
}  // namespace tessera::ops::cpu::test
