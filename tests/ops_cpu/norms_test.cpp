#include "tessera/ops/cpu/norms.h"

#include <omp.h>

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class Norms : public ::testing::Test {};
TYPED_TEST_SUITE(Norms, ElementTypes);

constexpr float kEpsilon = 1e-5f;

std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<double>& weight, double offset, std::int64_t width) {
  std::vector<double> y(x.size());
  for (std::size_t start = 0; start < x.size(); start += static_cast<std::size_t>(width)) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < width; ++c) squares += x[start + c] * x[start + c];
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (std::int64_t c = 0; c < width; ++c) y[start + c] = x[start + c] * rstd * (weight[c] + offset);
  }
  return y;
}

std::vector<double> layer_norm(const std::vector<double>& x, const std::vector<double>& weight, const std::vector<double>& bias, std::int64_t width) {
  std::vector<double> y(x.size());
  for (std::size_t start = 0; start < x.size(); start += static_cast<std::size_t>(width)) {
    double mean = 0.0;
    for (std::int64_t c = 0; c < width; ++c) mean += x[start + c] / static_cast<double>(width);
    double variance = 0.0;
    for (std::int64_t c = 0; c < width; ++c) variance += (x[start + c] - mean) * (x[start + c] - mean) / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) y[start + c] = (x[start + c] - mean) / std::sqrt(variance + kEpsilon) * weight[c] + bias[c];
  }
  return y;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TYPED_TEST(Norms, RmsValueAndGradient) {
  using T = TypeParam;
  for (const std::int64_t width : {1, 7, 64, 83}) {
    for (const std::int64_t rows : {1, 5}) {
      const auto x = random_array<T>(rows * width, 1, 3.0), weight = random_array<T>(width, 2), dy = random_array<T>(rows * width, 3),
                 skip = random_array<T>(rows * width, 4);
      const auto expected = rms_norm(x.values(), weight.values(), 1.0, width);
      const auto expected_dx = sum_of(
          numeric_gradient(x.values(), [&](const auto& at) { return dot(rms_norm(at, weight.values(), 1.0, width), dy.values()); }), skip.values());
      const auto expected_dw =
          numeric_gradient(weight.values(), [&](const auto& at) { return dot(rms_norm(x.values(), at, 1.0, width), dy.values()); });
      on_each_isa([&](Isa isa) {
        Array<T> y(rows * width), dx(rows * width);
        Array<float> rstd(rows), dw(width, 0.5);
        const VectorLayout layout{width, 0};
        RmsNormForward<T> forward{rows, 1, width, x.data(), layout, weight.data(), 1.0f, kEpsilon};
        forward.output = y.data();
        forward.output_layout = layout;
        forward.rstd = rstd.data();
        rms_norm_forward(forward, isa);
        expect_close(y, expected, 1e-6, "y");
        rms_norm_backward(RmsNormBackward<T>{rows, 1, width, x.data(), layout, weight.data(), 1.0f, rstd.data(), dy.data(), layout, skip.data(),
                                             dx.data(), layout, dw.data()},
                          isa);
        expect_close(dx, expected_dx, 2e-6, "dx");
        for (std::int64_t c = 0; c < width; ++c) EXPECT_NEAR(dw.at(c), 0.5 + expected_dw[c], 1e-5) << c;
      });
    }
  }
}

TYPED_TEST(Norms, RmsPerHeadInsideAFusedRow) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 3, kHeads = 2, kWidth = 20, kStride = 70;
  const auto fused = random_array<T>(kRows * kStride, 1);
  const auto weight = random_array<T>(kWidth, 2);
  std::vector<double> packed;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kHeads * kWidth; ++i) packed.push_back(fused.at(row * kStride + i));
  }
  const auto expected = rms_norm(packed, weight.values(), 0.0, kWidth);
  on_each_isa([&](Isa isa) {
    Array<T> output = fused;
    RmsNormForward<T> args{kRows, kHeads, kWidth, output.data(), {kStride, kWidth}, weight.data(), 0.0f, kEpsilon};
    args.output = output.data();
    args.output_layout = args.input_layout;
    rms_norm_forward(args, isa);
    Array<T> heads(kRows * kHeads * kWidth);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < kStride; ++i) {
        if (i < kHeads * kWidth) heads[row * kHeads * kWidth + i] = output[row * kStride + i];
        if (i >= kHeads * kWidth) {
          EXPECT_EQ(output.at(row * kStride + i), fused.at(row * kStride + i));
        }
      }
    }
    expect_close(heads, expected, 1e-6, "y");
  });
}

TYPED_TEST(Norms, LayerNormValueAndGradient) {
  using T = TypeParam;
  for (const std::int64_t width : {5, 7, 64, 83}) {
    constexpr std::int64_t kRows = 5;
    const auto x = random_array<T>(kRows * width, 1, 3.0), weight = random_array<T>(width, 2), bias = random_array<T>(width, 3),
               dy = random_array<T>(kRows * width, 4);
    const auto expected = layer_norm(x.values(), weight.values(), bias.values(), width);
    const auto loss = [&](const auto& at_x, const auto& at_w) { return dot(layer_norm(at_x, at_w, bias.values(), width), dy.values()); };
    const auto expected_dx = numeric_gradient(x.values(), [&](const auto& at) { return loss(at, weight.values()); });
    const auto expected_dw = numeric_gradient(weight.values(), [&](const auto& at) { return loss(x.values(), at); });
    on_each_isa([&](Isa isa) {
      Array<T> y(kRows * width), dx(kRows * width);
      Array<float> mean(kRows), rstd(kRows), dw(width), db(width);
      LayerNormForward<T> forward{kRows, width, x.data(), width, weight.data(), bias.data(), kEpsilon};
      forward.output = y.data();
      forward.output_stride = width;
      forward.mean = mean.data();
      forward.rstd = rstd.data();
      layer_norm_forward(forward, isa);
      expect_close(y, expected, 2e-6, "y");
      layer_norm_backward(LayerNormBackward<T>{kRows, width, x.data(), width, weight.data(), mean.data(), rstd.data(), dy.data(), width, nullptr,
                                               dx.data(), width, dw.data(), db.data()},
                          isa);
      expect_close(dx, expected_dx, 1e-5, "dx");
      expect_close(dw, expected_dw, 5e-6, "dw");
      for (std::int64_t c = 0; c < width; ++c) {
        double column = 0.0;
        for (std::int64_t row = 0; row < kRows; ++row) column += dy.at(row * width + c);
        EXPECT_NEAR(db.at(c), column, 1e-5);
      }
    });
  }
}

TYPED_TEST(Norms, NanStaysInItsRowAndZeroRowsAreFine) {
  using T = TypeParam;
  constexpr std::int64_t kWidth = 19;
  auto x = random_array<T>(3 * kWidth, 1);
  assign(x[kWidth + 4], kNan);
  on_each_isa([&](Isa isa) {
    Array<T> y(3 * kWidth);
    RmsNormForward<T> args{3, 1, kWidth, x.data(), {kWidth, 0}, nullptr, 0.0f, kEpsilon, y.data(), {kWidth, 0}};
    rms_norm_forward(args, isa);
    for (std::int64_t i = 0; i < 3 * kWidth; ++i) EXPECT_EQ(std::isnan(y.at(i)), i / kWidth == 1);
    args.rows = 0;
    rms_norm_forward(args, isa);
    rms_norm_backward(RmsNormBackward<T>{}, isa);
    layer_norm_forward(LayerNormForward<T>{}, isa);
    layer_norm_backward(LayerNormBackward<T>{}, isa);
  });
}

TEST(Norms, WeightGradientDoesNotDependOnThreads) {
  constexpr std::int64_t kRows = 1000, kWidth = 64;
  const auto x = random_array<float>(kRows * kWidth, 1), dy = random_array<float>(kRows * kWidth, 2);
  const Array<float> rstd(kRows, 1.0);
  const auto gradient = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    Array<float> dw(kWidth);
    RmsNormBackward<float> args{kRows, 1, kWidth, x.data(), {kWidth, 0}, nullptr, 0.0f, rstd.data(), dy.data(), {kWidth, 0}};
    args.weight_gradient = dw.data();
    rms_norm_backward(args);
    omp_set_num_threads(before);
    return dw.values();
  };
  EXPECT_EQ(gradient(1), gradient(3));
  EXPECT_EQ(gradient(2), gradient(2));
}

}  // namespace
}  // namespace tessera::ops::cpu::test
