#include "tessera/ops/cpu/cross_entropy.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class CrossEntropyKernel : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyKernel, ElementTypes);

constexpr std::int64_t kRows = 4, kColumns = 5003;  // past two blocks of the online pass
const std::vector<std::int64_t> kTargets{17, kIgnoredLabel, 5002, 0};

struct Expected {
  double loss = 0.0;
  std::vector<double> row_loss, lse, gradient;
};

Expected reference_of(const std::vector<double>& x, const std::vector<std::int64_t>& targets, double scale, double softcap, double gradient_scale) {
  Expected e;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    std::vector<double> z, slope;
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const double u = x[row * kColumns + c] * scale;
      const double t = softcap > 0 ? std::tanh(u / softcap) : 0.0;
      z.push_back(softcap > 0 ? softcap * t : u);
      slope.push_back(scale * (1.0 - t * t));
    }
    double top = -kInfinity;
    for (double value : z) top = std::max(top, value);
    double total = 0.0;
    for (double value : z) total += std::exp(value - top);
    e.lse.push_back(top + std::log(total));
    const std::int64_t target = targets[row];
    e.row_loss.push_back(target == kIgnoredLabel ? 0.0 : e.lse.back() - z[target]);
    e.loss += e.row_loss.back();
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const double g = (std::exp(z[c] - e.lse.back()) - (c == target ? 1.0 : 0.0)) * slope[c] * gradient_scale;
      e.gradient.push_back(target == kIgnoredLabel ? 0.0 : g);
    }
  }
  return e;
}

TYPED_TEST(CrossEntropyKernel, LossAndGradient) {
  using T = TypeParam;
  const auto x = random_array<T>(kRows * kColumns, 1, 5.0);
  for (const float softcap : {0.0f, 6.0f}) {
    for (const float scale : {1.0f, 0.3f}) {
      const Expected expected = reference_of(x.values(), kTargets, scale, softcap, 0.125);
      on_each_isa([&](Isa isa) {
        Array<T> logits = x, of_row = x;
        CrossEntropy<T> args{{kRows, kColumns, logits.data(), kColumns, scale, softcap, kTargets.data()}, true, 0.125f};
        EXPECT_NEAR(cross_entropy(args, isa), expected.loss, 1e-6 * expected.loss);
        for (std::int64_t row = 0; row < kRows; ++row) {
          const CrossEntropy<T> alone{{1, kColumns, of_row.data() + row * kColumns, kColumns, scale, softcap, &kTargets[row]}, false};
          EXPECT_NEAR(cross_entropy(alone, isa), expected.row_loss[row], 1e-6 * expected.loss);
        }
        expect_close(logits, expected.gradient, 1e-6, "gradient");
      });
    }
  }
}

TYPED_TEST(CrossEntropyKernel, LossAloneLeavesTheLogits) {
  using T = TypeParam;
  const auto x = random_array<T>(kRows * kColumns, 1, 5.0);
  const Expected expected = reference_of(x.values(), kTargets, 1.0, 0.0, 1.0);
  on_each_isa([&](Isa isa) {
    Array<T> logits = x;
    CrossEntropy<T> args{{kRows, kColumns, logits.data(), kColumns, 1.0f, 0.0f, kTargets.data()}, false};
    EXPECT_NEAR(cross_entropy(args, isa), expected.loss, 1e-6 * expected.loss);
    EXPECT_EQ(logits.values(), x.values());
  });
}

/// Two slices of the vocabulary, combined as tensor parallelism does, give the whole.
TYPED_TEST(CrossEntropyKernel, SlicesOfTheVocabulary) {
  using T = TypeParam;
  const auto x = random_array<T>(kRows * kColumns, 1, 5.0);
  const Expected expected = reference_of(x.values(), kTargets, 0.7, 8.0, 2.0);
  constexpr std::int64_t kCut = 2001;
  on_each_isa([&](Isa isa) {
    Array<T> logits = x;
    LogitsChunk<T> slices[2];
    slices[0] = {kRows, kCut, logits.data(), kColumns, 0.7f, 8.0f, kTargets.data(), 0};
    slices[1] = {kRows, kColumns - kCut, logits.data() + kCut, kColumns, 0.7f, 8.0f, kTargets.data(), kCut};
    std::vector<float> top(kRows, -std::numeric_limits<float>::infinity()), total(kRows), target(kRows), part(kRows), lse(kRows);
    for (const auto& slice : slices) {
      logits_row_max(slice, part.data(), isa);
      for (std::int64_t r = 0; r < kRows; ++r) top[r] = std::max(top[r], part[r]);
    }
    for (const auto& slice : slices) {
      logits_row_sum_exp(slice, top.data(), part.data(), isa);
      for (std::int64_t r = 0; r < kRows; ++r) total[r] += part[r];
      logits_target(slice, part.data(), isa);
      for (std::int64_t r = 0; r < kRows; ++r) target[r] += part[r];
    }
    for (std::int64_t r = 0; r < kRows; ++r) {
      lse[r] = top[r] + std::log(total[r]);
      EXPECT_NEAR(lse[r], expected.lse[r], 1e-5);
      if (kTargets[r] != kIgnoredLabel) {
        EXPECT_NEAR(lse[r] - target[r], expected.row_loss[r], 1e-5);
      }
    }
    for (const auto& slice : slices) logits_gradient(slice, lse.data(), 2.0f, isa);
    expect_close(logits, expected.gradient, 3e-6, "gradient");
  });
}

TEST(CrossEntropyKernel, NanInfinityAndForeignTargets) {
  on_each_isa([&](Isa isa) {
    auto x = random_array<float>(3 * 50, 1);
    x[20] = static_cast<float>(kNan);
    for (std::int64_t c = 0; c < 50; ++c) x[50 + c] = c == 7 ? 1.0f : -std::numeric_limits<float>::infinity();
    const std::vector<std::int64_t> targets{3, 7, 50};
    Array<float> row_max(3);
    const auto row_loss = [&](std::int64_t row) {
      return cross_entropy(CrossEntropy<float>{{1, 50, x.data() + row * 50, 50, 1.0f, 0.0f, &targets[row]}, false}, isa);
    };
    EXPECT_TRUE(std::isnan(row_loss(0)));
    EXPECT_EQ(row_loss(1), 0.0);
    EXPECT_TRUE(std::isnan(row_loss(2)));
    CrossEntropy<float> args{{3, 50, x.data(), 50, 1.0f, 0.0f, targets.data()}, true, 1.0f};
    logits_row_max(args.chunk, row_max.data(), isa);
    EXPECT_TRUE(std::isnan(row_max.at(0)));
    EXPECT_EQ(row_max.at(1), 1.0);
    EXPECT_TRUE(std::isnan(cross_entropy(args, isa)));
    for (std::int64_t c = 0; c < 50; ++c) {
      EXPECT_TRUE(std::isnan(x.at(c)));
      EXPECT_EQ(x.at(50 + c), 0.0);
    }
    args.chunk.rows = 0;
    EXPECT_EQ(cross_entropy(args, isa), 0.0);
  });
}

}  // namespace
}  // namespace tessera::ops::cpu::test
