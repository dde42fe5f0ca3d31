#include "tessera/ops/cpu/optimizer.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

struct State {
  std::vector<double> parameter, first, second;
};

/// torch.optim.Adam / AdamW (single tensor, not capturable) in fp64.
void reference_step(State& s, const std::vector<double>& gradient, const AdamStep& a) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    double g = gradient[i] * a.gradient_scale;
    if (a.decoupled) s.parameter[i] *= 1.0 - a.learning_rate * a.weight_decay;
    if (!a.decoupled) g += a.weight_decay * s.parameter[i];
    s.first[i] += (1.0 - a.beta1) * (g - s.first[i]);
    s.second[i] = a.beta2 * s.second[i] + (1.0 - a.beta2) * g * g;
    const double step_size = a.learning_rate / (1.0 - std::pow(a.beta1, a.step));
    const double denominator = std::sqrt(s.second[i]) / std::sqrt(1.0 - std::pow(a.beta2, a.step)) + a.epsilon;
    s.parameter[i] -= step_size * s.first[i] / denominator;
  }
}

TEST(AdamStep, TenStepsOfBothKinds) {
  constexpr std::int64_t kSize = 5003;
  for (const bool decoupled : {true, false}) {
    on_each_isa([&](Isa isa) {
      auto parameter = random_array<float>(kSize, 1);
      Array<float> first(kSize), second(kSize);
      Array<bfloat16> copy(kSize);
      State reference{parameter.values(), first.values(), second.values()};
      for (int step = 1; step <= 10; ++step) {
        const auto gradient = random_array<float>(kSize, 10 + step, 0.1);
        AdamStep args{kSize, parameter.data(), first.data(), second.data(), gradient.data(), copy.data(), 1e-2, 0.9, 0.95, 1e-6, 0.1};
        args.decoupled = decoupled;
        args.gradient_scale = 0.5;
        args.step = step;
        adam_step(args, isa);
        reference_step(reference, gradient.values(), args);
      }
      expect_close(parameter, reference.parameter, 2e-6, "parameter");
      expect_close(first, reference.first, 2e-6, "first moment");
      expect_close(second, reference.second, 2e-6, "second moment");
      for (std::int64_t i = 0; i < kSize; ++i) ASSERT_EQ(copy[i].bits, float_to_bfloat16(parameter[i]));
    });
  }
}

TEST(AdamStep, NanReachesTheParameter) {
  on_each_isa([&](Isa isa) {
    Array<float> parameter(20, 1.0), first(20), second(20), gradient(20, 0.1);
    gradient[18] = static_cast<float>(kNan);
    adam_step(AdamStep{20, parameter.data(), first.data(), second.data(), gradient.data()}, isa);
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(parameter.at(i)), i == 18);
  });
}

}  // namespace
}  // namespace tessera::ops::cpu::test
