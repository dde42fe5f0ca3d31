#include "ops_cpu/kernel_support.h"
#include "tessera/ops/cpu/attention.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class DecodeAttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(DecodeAttentionKernel, ElementTypes);

/// The flash kernel, itself checked against fp64, over the same cache: one query at position length - 1.
template <class T>
void check(std::int64_t window, float softcap, const float* sinks) {
  constexpr std::int64_t kBatch = 3, kCapacity = 700, kHeads = 6, kKeyHeads = 2, kHeadDim = 24, kValueDim = 20;
  const std::vector<std::int64_t> lengths{700, 1, 300};
  const auto query = random_array<T>(kBatch * kHeads * kHeadDim, 1), keys = random_array<T>(kBatch * kCapacity * kKeyHeads * kHeadDim, 2),
             values = random_array<T>(kBatch * kCapacity * kKeyHeads * kValueDim, 3);
  const HeadStrides q{kHeads * kHeadDim, 0, kHeadDim}, k{kCapacity * kKeyHeads * kHeadDim, kKeyHeads * kHeadDim, kHeadDim},
      v{kCapacity * kKeyHeads * kValueDim, kKeyHeads * kValueDim, kValueDim}, o{kHeads * kValueDim, 0, kValueDim};
  on_each_isa([&](Isa isa) {
    Array<float> expected(kBatch * kHeads * kValueDim);
    for (std::int64_t b = 0; b < kBatch; ++b) {
      AttentionShape shape;
      shape.batch = shape.query_length = 1;
      shape.key_length = lengths[b];
      shape.query_start = lengths[b] - 1;
      shape.heads = kHeads;
      shape.key_heads = kKeyHeads;
      shape.head_dim = kHeadDim;
      shape.value_dim = kValueDim;
      shape.scale = 0.2f;
      shape.window = window;
      shape.softcap = softcap;
      shape.sinks = sinks;
      Array<T> part(kHeads * kValueDim);
      attention_forward(
          AttentionForward<T>{shape, query.data() + b * q.batch, q, keys.data() + b * k.batch, k, values.data() + b * v.batch, v, part.data(), o},
          isa);
      for (std::int64_t i = 0; i < part.size(); ++i) expected[b * part.size() + i] = static_cast<float>(part.at(i));
    }
    Array<T> output(kBatch * kHeads * kValueDim);
    DecodeAttention<T> args{kBatch,         kHeads,       kKeyHeads, kHeadDim,    kValueDim, 0.2f,          softcap, window,        sinks,
                            lengths.data(), query.data(), q,         keys.data(), k,         values.data(), v,       output.data(), o};
    decode_attention(args, isa);
    expect_close(output, expected.values(), 2e-6, "output");
  });
}

TYPED_TEST(DecodeAttentionKernel, AgreesWithTheFlashKernel) {
  const std::vector<float> sinks{0.1f, 2.0f, -1.0f, 0.0f, 5.0f, -3.0f};
  check<TypeParam>(0, 0.0f, nullptr);
  check<TypeParam>(50, 0.0f, nullptr);
  check<TypeParam>(0, 3.0f, nullptr);
  check<TypeParam>(290, 3.0f, sinks.data());
}

TEST(DecodeAttentionKernel, AnEmptyCacheGivesZeros) {
  const std::vector<std::int64_t> lengths{0};
  Array<float> output(4, kNan), query(4, 1.0);
  DecodeAttention<float> args{
      1, 1, 1, 4, 4, 1.0f, 0.0f, 0, nullptr, lengths.data(), query.data(), {}, query.data(), {}, query.data(), {}, output.data(), {}};
  decode_attention(args);
  EXPECT_EQ(output.values(), std::vector<double>(4, 0.0));
}

}  // namespace
}  // namespace tessera::ops::cpu::test
