#include <omp.h>

#include <string>

#include "ops_cpu/attention_support.h"

/// The attention kernels on a part of a problem: some of the keys, some of the threads, strided rows.
namespace tessera::ops::cpu::test {
namespace {

/// Two halves of the keys, merged by their lse, are the whole; the backward pass of each half with the merged lse gives its share.
TEST(AttentionSplit, HalvesOfTheKeysMergeExactly) {
  Problem p;
  p.shape = shape_of(1, 64, 128, 2, 1, 16, 16);
  p.shape.query_start = 64;
  fill<float>(p, 13);
  const Reference whole = reference_of(p);
  const HeadStrides q = dense(64, 2, 16), k = dense(128, 1, 16);
  const Array<float> query(p.query), key(p.key), value(p.value), dout(p.output_gradient), output(whole.output), lse(whole.lse);
  std::vector<double> dq(p.query.size());
  Array<float> dk(128 * 16), dv(128 * 16);
  for (std::int64_t half = 0; half < 2; ++half) {
    AttentionBackward<float> b{p.shape, query.data(), q, key.data() + half * 64 * 16, k, value.data() + half * 64 * 16, k};
    b.shape.key_length = 64;
    b.shape.key_start = half * 64;
    b.output = output.data();
    b.output_strides = q;
    b.lse = lse.data();
    b.output_gradient = dout.data();
    b.output_gradient_strides = q;
    Array<float> part(static_cast<std::int64_t>(dq.size()));
    b.query_gradient = part.data();
    b.query_gradient_strides = q;
    b.key_gradient = dk.data() + half * 64 * 16;
    b.key_gradient_strides = k;
    b.value_gradient = dv.data() + half * 64 * 16;
    b.value_gradient_strides = k;
    attention_backward(b);
    for (std::size_t i = 0; i < dq.size(); ++i) dq[i] += part.at(static_cast<std::int64_t>(i));
  }
  expect_close(Array<float>(dq), whole.query_gradient, 5e-6, "query gradient");
  expect_close(dk, whole.key_gradient, 5e-6, "key gradient");
  expect_close(dv, whole.value_gradient, 5e-6, "value gradient");
}

TEST(AttentionSplit, RepeatableAndSplitOverThreads) {
  Problem p;
  p.shape = shape_of(1, 300, 300, 4, 1, 32, 32);  // one key head: the backward pass must split query tiles
  fill<float>(p, 14);
  const Reference r = reference_of(p);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(4);
  const auto first = compute<float>(p, r, best_isa());
  const auto second = compute<float>(p, r, best_isa());
  omp_set_num_threads(threads);
  expect_close(first.key_gradient, r.key_gradient, 5e-6, "key gradient");
  expect_close(first.value_gradient, r.value_gradient, 5e-6, "value gradient");
  const auto bytes = [](const Array<float>& a) {
    return std::string(reinterpret_cast<const char*>(a.data()), static_cast<std::size_t>(a.size()) * 4);
  };
  EXPECT_EQ(bytes(first.output), bytes(second.output));
  EXPECT_EQ(bytes(first.query_gradient), bytes(second.query_gradient));
  EXPECT_EQ(bytes(first.key_gradient), bytes(second.key_gradient));
  EXPECT_EQ(bytes(first.value_gradient), bytes(second.value_gradient));
}

TEST(AttentionSplit, StridedRowsOfAFusedProjection) {
  Problem p;
  p.shape = shape_of(2, 40, 40, 4, 2, 16, 16);
  fill<float>(p, 15);
  const Reference r = reference_of(p);
  constexpr std::int64_t kRow = (4 + 2 + 2) * 16;
  Array<float> fused(2 * 40 * kRow), gradient(2 * 40 * kRow, kNan);
  for (std::int64_t token = 0; token < 80; ++token) {
    for (std::int64_t i = 0; i < 64; ++i) fused[token * kRow + i] = static_cast<float>(p.query[token * 64 + i]);
    for (std::int64_t i = 0; i < 32; ++i) fused[token * kRow + 64 + i] = static_cast<float>(p.key[token * 32 + i]);
    for (std::int64_t i = 0; i < 32; ++i) fused[token * kRow + 96 + i] = static_cast<float>(p.value[token * 32 + i]);
  }
  const HeadStrides row{40 * kRow, kRow, 16};
  const HeadStrides out = dense(40, 4, 16);
  Array<float> output(2 * 40 * 64), lse(2 * 4 * 40);
  const Array<float> dout(p.output_gradient);
  const float* base = fused.data();
  attention_forward(AttentionForward<float>{p.shape, base, row, base + 64, row, base + 96, row, output.data(), out, lse.data()});
  expect_close(output, r.output, 3e-6, "output");
  AttentionBackward<float> b{p.shape, base, row, base + 64, row, base + 96, row, output.data(), out, lse.data(), dout.data(), out};
  b.query_gradient = gradient.data();
  b.key_gradient = gradient.data() + 64;
  b.value_gradient = gradient.data() + 96;
  b.query_gradient_strides = b.key_gradient_strides = b.value_gradient_strides = row;
  attention_backward(b);
  for (std::int64_t token = 0; token < 80; ++token) {
    for (std::int64_t i = 0; i < 64; ++i) EXPECT_NEAR(gradient[token * kRow + i], r.query_gradient[token * 64 + i], 1e-5);
    for (std::int64_t i = 0; i < 32; ++i) EXPECT_NEAR(gradient[token * kRow + 64 + i], r.key_gradient[token * 32 + i], 3e-5);
    for (std::int64_t i = 0; i < 32; ++i) EXPECT_NEAR(gradient[token * kRow + 96 + i], r.value_gradient[token * 32 + i], 3e-5);
  }
}

/// With enough pairs of row and key head nothing is split over threads.
TEST(AttentionSplit, GradientsAreThoseOfOneThreadWherePairsSuffice) {
  Problem p;
  p.shape = shape_of(2, 150, 150, 4, 4, 16, 16);
  fill<float>(p, 16);
  const Reference r = reference_of(p);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = compute<float>(p, r, best_isa());
  for (const int number : {2, 3, 4}) {
    omp_set_num_threads(number);
    const auto several = compute<float>(p, r, best_isa());
    EXPECT_EQ(one.query_gradient.values(), several.query_gradient.values()) << number;
    EXPECT_EQ(one.key_gradient.values(), several.key_gradient.values()) << number;
    EXPECT_EQ(one.value_gradient.values(), several.value_gradient.values()) << number;
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace tessera::ops::cpu::test
