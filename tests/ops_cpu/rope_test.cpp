#include "tessera/ops/cpu/rope.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class RopeKernel : public ::testing::Test {};
TYPED_TEST_SUITE(RopeKernel, ElementTypes);

constexpr std::int64_t kTokens = 6, kHeads = 3, kHeadDim = 44;

/// Rotates as complex numbers: an oracle of another form than the kernel's.
std::vector<double> rotate(const std::vector<double>& x, const Array<float>& cosines, const Array<float>& sines, std::int64_t rotary_dim,
                           bool inverse) {
  std::vector<double> y = x;
  const std::int64_t half = rotary_dim / 2;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t base = (t * kHeads + h) * kHeadDim;
        const std::int64_t a = base + i, b = base + half + i;
        const double c = cosines.at(t * half + i);
        const double s = sines.at(t * half + i) * (inverse ? -1 : 1);
        y[a] = x[a] * c - x[b] * s;
        y[b] = x[b] * c + x[a] * s;
      }
    }
  }
  return y;
}

TYPED_TEST(RopeKernel, BothDirectionsPartialAndWhole) {
  using T = TypeParam;
  for (const std::int64_t rotary : {44L, 32L, 10L, 0L}) {
    for (const bool inverse : {false, true}) {
      const auto cosines = random_array<float>(kTokens * rotary / 2, 1), sines = random_array<float>(kTokens * rotary / 2, 2);
      const auto x = random_array<T>(kTokens * kHeads * kHeadDim, 3);
      const auto expected = rotate(x.values(), cosines, sines, rotary, inverse);
      on_each_isa([&](Isa isa) {
        Array<T> y(x.size(), kNan);
        Rope<T> args{kTokens, kHeads, kHeadDim, rotary, inverse, cosines.data(), sines.data()};
        args.input = x.data();
        args.output = y.data();
        args.input_token_stride = args.output_token_stride = kHeads * kHeadDim;
        args.input_head_stride = args.output_head_stride = kHeadDim;
        rope(args, isa);
        expect_close(y, expected, 1e-6, "out of place");
        Array<T> in_place = x;
        args.input = args.output = in_place.data();
        rope(args, isa);
        expect_close(in_place, expected, 1e-6, "in place");
      });
    }
  }
}

}  // namespace
}  // namespace tessera::ops::cpu::test
