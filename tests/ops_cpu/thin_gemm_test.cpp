#include "tessera/ops/cpu/thin_gemm.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T, class W>
void check(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, WeightOrder order, bool with_bias) {
  const auto x = random_array<T>(rows * (inputs + 3), 1);
  const auto weight = random_array<W>(inputs * outputs, 2);
  const auto bias = random_array<T>(outputs, 3);
  std::vector<double> expected;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < outputs; ++n) {
      double total = with_bias ? bias.at(n) : 0.0;
      for (std::int64_t k = 0; k < inputs; ++k) {
        total += x.at(m * (inputs + 3) + k) * weight.at(order == WeightOrder::OutIn ? n * inputs + k : k * outputs + n);
      }
      expected.push_back(total);
    }
  }
  on_each_isa([&](Isa isa) {
    Array<T> y(rows * outputs, kNan);
    thin_gemm(ThinGemm<T, W>{rows, inputs, outputs, x.data(), inputs + 3, weight.data(), order, with_bias ? bias.data() : nullptr, y.data(), outputs},
              isa);
    expect_close(y, expected, 2e-6, "y");
  });
}

TEST(ThinGemm, RowsFromOneToNineInBothOrders) {
  for (const WeightOrder order : {WeightOrder::OutIn, WeightOrder::InOut}) {
    for (std::int64_t rows = 0; rows <= 9; ++rows) {
      check<float, float>(rows, 131, 37, order, true);
      check<bfloat16, bfloat16>(rows, 131, 37, order, false);
      check<float, bfloat16>(rows, 64, 200, order, true);
    }
  }
}

TEST(ThinGemm, ManyOutputsSplitOverThreads) {
  check<float, float>(1, 301, 3001, WeightOrder::OutIn, true);
  check<float, float>(2, 301, 3001, WeightOrder::InOut, true);
}

TEST(ThinGemm, TinyShapes) {
  for (const WeightOrder order : {WeightOrder::OutIn, WeightOrder::InOut}) {
    check<float, float>(1, 1, 1, order, false);
    check<float, float>(1, 0, 5, order, true);
    check<float, float>(3, 5, 0, order, false);
  }
}

}  // namespace
}  // namespace tessera::ops::cpu::test
