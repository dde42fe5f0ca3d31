#include "tessera/ops/cpu/expert_gemm.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

struct Sizes {
  std::int64_t rows, inputs, outputs;
};

/// Tiles are 6 × 64 at most, passes 128 deep, or 64 deep and 256 wide: below, at and past those, and not their multiples.
const std::vector<Sizes> kSizes = {{1, 1, 1},     {5, 7, 3},      {6, 64, 48},   {16, 128, 64}, {63, 130, 50},
                                   {64, 256, 96}, {65, 191, 101}, {140, 64, 49}, {20, 520, 70}, {0, 16, 16}};

template <class At>
std::vector<double> product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const At& term) {
  std::vector<double> result;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < depth; ++k) sum += term(row, column, k);
      result.push_back(sum);
    }
  return result;
}

TEST(ExpertGemm, Forward) {
  for (const auto& [rows, inputs, outputs] : kSizes) {
    const std::int64_t width = inputs;
    const auto x = random_array<float>(rows * inputs, 1), weight = random_array<float>(outputs * inputs, 2);
    const auto expected = product(rows, outputs, inputs, [&](auto n, auto o, auto i) { return x.at(n * width + i) * weight.at(o * width + i); });
    on_each_isa([&, rows = rows, inputs = inputs, outputs = outputs](Isa isa) {
      Array<float> y(rows * outputs, kNan);
      expert_forward({rows, inputs, outputs, x.data(), weight.data(), y.data()}, isa);
      expect_close(y, expected, 2e-6, "output");
    });
  }
}

TEST(ExpertGemm, InputGradient) {
  for (const auto& [rows, inputs, outputs] : kSizes) {
    const std::int64_t width = inputs, height = outputs;
    const auto dy = random_array<float>(rows * outputs, 1), weight = random_array<float>(outputs * inputs, 2);
    const auto expected = product(rows, inputs, outputs, [&](auto n, auto i, auto o) { return dy.at(n * height + o) * weight.at(o * width + i); });
    on_each_isa([&, rows = rows, inputs = inputs, outputs = outputs](Isa isa) {
      Array<float> dx(rows * inputs, kNan);
      expert_input_gradient({rows, inputs, outputs, dy.data(), weight.data(), dx.data()}, isa);
      expect_close(dx, expected, 2e-6, "input gradient");
    });
  }
}

TEST(ExpertGemm, WeightGradientOverwritesOrAdds) {
  for (const auto& [rows, inputs, outputs] : kSizes) {
    const std::int64_t width = inputs, height = outputs;
    const auto dy = random_array<float>(rows * outputs, 1), x = random_array<float>(rows * inputs, 2);
    const auto once = product(outputs, inputs, rows, [&](auto o, auto i, auto n) { return dy.at(n * height + o) * x.at(n * width + i); });
    std::vector<double> twice = once;
    for (double& value : twice) value *= 2.0;
    on_each_isa([&, rows = rows, inputs = inputs, outputs = outputs](Isa isa) {
      Array<float> dw(outputs * inputs, kNan);
      ExpertWeightGradient args{rows, inputs, outputs, dy.data(), x.data(), dw.data(), false};
      expert_weight_gradient(args, isa);
      expect_close(dw, once, 2e-6, "weight gradient");
      args.accumulate = true;
      expert_weight_gradient(args, isa);
      expect_close(dw, twice, 2e-6, "weight gradient, added");
    });
  }
}

}  // namespace
}  // namespace tessera::ops::cpu::test
