#include "tessera/ops/cpu/activations.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class Activations : public ::testing::Test {};
TYPED_TEST_SUITE(Activations, ElementTypes);

constexpr Activation kAll[] = {Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Relu};

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::Silu:
      return x / (1.0 + std::exp(-x));
    case Activation::GeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::GeluErf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::Relu:
      break;
  }
  return std::max(x, 0.0);
}

double slope(Activation activation, double x) {
  const double step = 1e-5;
  return (activate(activation, x + step) - activate(activation, x - step)) / (2 * step);
}

TYPED_TEST(Activations, GatedValueAndGradientOfAFusedRow) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 3, kWidth = 37;
  const auto fused = random_array<T>(kRows * 2 * kWidth, 1, 3.0), dy = random_array<T>(kRows * kWidth, 2);
  for (const Activation activation : kAll) {
    std::vector<double> expected, expected_gradient(static_cast<std::size_t>(fused.size()));
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t c = 0; c < kWidth; ++c) {
        const double gate = fused.at(row * 2 * kWidth + c), up = fused.at(row * 2 * kWidth + kWidth + c), gradient = dy.at(row * kWidth + c);
        expected.push_back(activate(activation, gate) * up);
        expected_gradient[row * 2 * kWidth + c] = gradient * up * slope(activation, gate);
        expected_gradient[row * 2 * kWidth + kWidth + c] = gradient * activate(activation, gate);
      }
    }
    on_each_isa([&](Isa isa) {
      Array<T> y(kRows * kWidth);
      activation_forward(
          ActivationForward<T>{activation, kRows, kWidth, fused.data(), 2 * kWidth, fused.data() + kWidth, 2 * kWidth, y.data(), kWidth}, isa);
      expect_close(y, expected, 1e-6, "y");
      Array<T> in_place = fused, again(kRows * kWidth);
      activation_backward(
          ActivationBackward<T>{activation, kRows, kWidth, in_place.data(), 2 * kWidth, in_place.data() + kWidth, 2 * kWidth, dy.data(), kWidth,
                                in_place.data(), 2 * kWidth, in_place.data() + kWidth, 2 * kWidth, again.data(), kWidth},
          isa);
      expect_close(in_place, expected_gradient, 2e-6, "gradients");
      expect_close(again, expected, 1e-6, "recomputed y");
    });
  }
}

TYPED_TEST(Activations, PlainValueAndGradient) {
  using T = TypeParam;
  const auto x = random_array<T>(101, 1, 4.0), dy = random_array<T>(101, 2);
  for (const Activation activation : kAll) {
    std::vector<double> expected, expected_gradient;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      expected.push_back(activate(activation, x.at(i)));
      expected_gradient.push_back(dy.at(i) * slope(activation, x.at(i)));
    }
    on_each_isa([&](Isa isa) {
      Array<T> y(101), dx(101);
      activation_forward(ActivationForward<T>{activation, 1, 101, x.data(), 101, nullptr, 0, y.data(), 101}, isa);
      expect_close(y, expected, 1e-6, "y");
      activation_backward(ActivationBackward<T>{activation, 1, 101, x.data(), 101, nullptr, 0, dy.data(), 101, dx.data(), 101}, isa);
      expect_close(dx, expected_gradient, 2e-6, "dx");
    });
  }
}

/// Over the whole range, so that every branch of the vector functions is walked: errors in units of the result's own last place.
TEST(Activations, RelativeErrorIsSmallEverywhere) {
  std::vector<double> points;
  for (double x = -12.0; x <= 12.0; x += 0.001) points.push_back(x);
  const Array<float> x(points);
  for (const Activation activation : kAll) {
    on_each_isa([&](Isa isa) {
      Array<float> y(x.size());
      activation_forward(ActivationForward<float>{activation, 1, x.size(), x.data(), 0, nullptr, 0, y.data(), 0}, isa);
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double expected = activate(activation, x.at(i));
        // The gelus of large negative x are differences of nearly equal numbers: absolute accuracy there.
        ASSERT_NEAR(y.at(i), expected, 5e-7 * std::fabs(expected) + 1.2e-7 * std::fabs(x.at(i)) * (activation == Activation::Silu ? 0 : 1))
            << x.at(i);
      }
    });
  }
}

TEST(Activations, ExtremesAndNan) {
  const Array<float> x(std::vector<double>{-kInfinity, -1e30, -200, 0, 200, 1e30, kInfinity, kNan});
  on_each_isa([&](Isa isa) {
    for (const Activation activation : kAll) {
      Array<float> y(x.size());
      activation_forward(ActivationForward<float>{activation, 1, x.size(), x.data(), 0, nullptr, 0, y.data(), 0}, isa);
      EXPECT_EQ(y.at(2), 0.0);
      EXPECT_EQ(y.at(3), 0.0);
      EXPECT_EQ(y.at(4), 200.0);
      EXPECT_EQ(y[5], x[5]);
      EXPECT_EQ(y.at(6), kInfinity);
      EXPECT_TRUE(std::isnan(y.at(7)));
    }
  });
}

}  // namespace
}  // namespace tessera::ops::cpu::test
