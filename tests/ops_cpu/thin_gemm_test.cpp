#include "tessera/ops/cpu/thin_gemm.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T, class W>
void check(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, bool with_bias) {
  const auto x = random_array<T>(rows * (inputs + 3), 1);
  const auto weight = random_array<W>(inputs * outputs, 2);
  const auto bias = random_array<T>(outputs, 3);
  std::vector<double> expected;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < outputs; ++n) {
      double total = with_bias ? bias.at(n) : 0.0;
      for (std::int64_t k = 0; k < inputs; ++k) {
        total += x.at(m * (inputs + 3) + k) * weight.at(n * inputs + k);
      }
      expected.push_back(total);
    }
  }
  on_each_isa([&](Isa isa) {
    Array<T> y(rows * outputs, kNan);
    thin_gemm(ThinGemm<T, W>{rows, inputs, outputs, x.data(), inputs + 3, weight.data(), with_bias ? bias.data() : nullptr, y.data(), outputs}, isa);
    expect_close(y, expected, 2e-6, "y");
  });
}

TEST(ThinGemm, RowsFromOneToNine) {
  for (std::int64_t rows = 0; rows <= 9; ++rows) {
    check<float, float>(rows, 131, 37, true);
    check<bfloat16, bfloat16>(rows, 131, 37, false);
    check<float, bfloat16>(rows, 64, 200, true);
  }
}

TEST(ThinGemm, ManyOutputsSplitOverThreads) {
  check<float, float>(1, 301, 3001, true);
  check<float, float>(2, 301, 3001, true);
}

TEST(ThinGemm, TinyShapes) {
  check<float, float>(1, 1, 1, false);
  check<float, float>(1, 0, 5, true);
  check<float, float>(3, 5, 0, false);
}

}  // namespace
}  // namespace tessera::ops::cpu::test
