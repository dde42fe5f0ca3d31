#include "tessera/ops/cpu/rope.h"

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class RopeKernel : public ::testing::Test {};
TYPED_TEST_SUITE(RopeKernel, ElementTypes);

constexpr std::int64_t kTokens = 6, kHeads = 3, kHeadDim = 44, kPositions = 9;

/// Rotates as complex numbers: an oracle of another form than the kernel's.
std::vector<double> rotate(const std::vector<double>& x, const Array<float>& cosines, const Array<float>& sines,
                           const std::vector<std::int64_t>& positions, std::int64_t rotary_dim, RopePairs pairs, bool inverse) {
  std::vector<double> y = x;
  const std::int64_t half = rotary_dim / 2;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t base = (t * kHeads + h) * kHeadDim;
        const std::int64_t a = base + (pairs == RopePairs::HalfSplit ? i : 2 * i);
        const std::int64_t b = base + (pairs == RopePairs::HalfSplit ? half + i : 2 * i + 1);
        const double c = cosines.at(positions[t] * half + i);
        const double s = sines.at(positions[t] * half + i) * (inverse ? -1 : 1);
        y[a] = x[a] * c - x[b] * s;
        y[b] = x[b] * c + x[a] * s;
      }
    }
  }
  return y;
}

TYPED_TEST(RopeKernel, BothLayoutsBothDirectionsPartialAndWhole) {
  using T = TypeParam;
  const std::vector<std::int64_t> positions{3, 0, 8, 8, 1, 2};
  for (const std::int64_t rotary : {44L, 32L, 10L, 0L}) {
    for (const RopePairs pairs : {RopePairs::HalfSplit, RopePairs::Interleaved}) {
      for (const bool inverse : {false, true}) {
        const auto cosines = random_array<float>(kPositions * rotary / 2, 1), sines = random_array<float>(kPositions * rotary / 2, 2);
        const auto x = random_array<T>(kTokens * kHeads * kHeadDim, 3);
        const auto expected = rotate(x.values(), cosines, sines, positions, rotary, pairs, inverse);
        on_each_isa([&](Isa isa) {
          Array<T> y(x.size(), kNan);
          Rope<T> args{kTokens, kHeads, kHeadDim, rotary, pairs, inverse, cosines.data(), sines.data(), positions.data()};
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
}

TEST(RopeKernel, PositionsCountWithinEachRowFromTheFirst) {
  const auto cosines = random_array<float>(kPositions * 22, 1), sines = random_array<float>(kPositions * 22, 2);
  const auto x = random_array<float>(kTokens * kHeads * kHeadDim, 3);
  const auto expected = rotate(x.values(), cosines, sines, {5, 6, 7, 5, 6, 7}, 44, RopePairs::HalfSplit, false);
  Array<float> y = x;
  Rope<float> args{kTokens, kHeads, kHeadDim, 44, RopePairs::HalfSplit, false, cosines.data(), sines.data()};
  args.first_position = 5;
  args.tokens_per_row = 3;
  args.input = args.output = y.data();
  args.input_token_stride = args.output_token_stride = kHeads * kHeadDim;
  args.input_head_stride = args.output_head_stride = kHeadDim;
  rope(args);
  expect_close(y, expected, 1e-6, "y");
}

TEST(CopyHeads, BetweenStrides) {
  const auto x = random_array<float>(4 * 50, 1);
  Array<float> y(4 * 2 * 7);
  copy_heads(4, 2, 7, x.data() + 10, 50, 20, y.data(), 14, 7);
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t c = 0; c < 7; ++c) EXPECT_EQ(y.at(t * 14 + h * 7 + c), x.at(10 + t * 50 + h * 20 + c));
    }
  }
}

}  // namespace
}  // namespace tessera::ops::cpu::test
