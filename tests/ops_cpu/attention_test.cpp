#include "tessera/ops/cpu/attention.h"

#include <omp.h>

#include <cstring>

#include "ops_cpu/kernel_support.h"
#include "tessera/ops/cpu/dropout.h"

namespace tessera::ops::cpu::test {
namespace {

/// Dense [B, T, H, C] tensors and their fp64 reference.
struct Problem {
  AttentionShape shape;
  std::vector<double> query, key, value, output_gradient;
  std::vector<std::int64_t> document_begin, document_end, query_lengths, key_lengths, samples;
  std::vector<float> sinks;
};

struct Reference {
  std::vector<double> output, lse, query_gradient, key_gradient, value_gradient, sink_gradient;
};

HeadStrides dense(std::int64_t tokens, std::int64_t heads, std::int64_t width) { return {tokens * heads * width, heads * width, width}; }

bool visible(const AttentionShape& s, std::int64_t b, std::int64_t t, std::int64_t k) {
  const std::int64_t p = s.query_start + t;
  const std::int64_t j = s.key_start + k;
  if (s.causal && j > p) return false;
  if (s.window > 0 && (p - j >= s.window || (!s.causal && j - p >= s.window))) return false;
  if (s.document_begin != nullptr && j < s.document_begin[b * s.query_length + t]) return false;
  if (s.document_end != nullptr && j >= s.document_end[b * s.query_length + t]) return false;
  if (s.query_lengths != nullptr && t >= s.query_lengths[b]) return false;
  return s.key_lengths == nullptr || k < s.key_lengths[b];
}

double keep_factor(const AttentionShape& s, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t k) {
  if (s.dropout == 0.0f) return 1.0;
  const auto sample = static_cast<std::uint64_t>(s.samples != nullptr ? s.samples[b] : b);
  const std::uint64_t row =
      dropout_row_key(s.dropout_key, sample, static_cast<std::uint64_t>(s.head_start + h), static_cast<std::uint64_t>(s.query_start + t));
  const bool kept = dropout_word(row, static_cast<std::uint32_t>(s.key_start + k)) >= dropout_threshold(s.dropout);
  return kept ? 1.0 / (1.0 - static_cast<double>(s.dropout)) : 0.0;
}

/// One query row: probabilities, logits and lse.
struct Row {
  std::vector<double> logits, probabilities;
  double lse;
};

Row softmax_row(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t t) {
  const AttentionShape& s = p.shape;
  Row row;
  double top = s.sinks != nullptr ? s.sinks[h] : -kInfinity;
  for (std::int64_t k = 0; k < s.key_length; ++k) {
    double z = 0.0;
    for (std::int64_t c = 0; c < s.head_dim; ++c) {
      z += p.query[((b * s.query_length + t) * s.heads + h) * s.head_dim + c] *
           p.key[((b * s.key_length + k) * s.key_heads + h / (s.heads / s.key_heads)) * s.head_dim + c];
    }
    z *= s.scale;
    if (s.softcap > 0.0f) z = s.softcap * std::tanh(z / s.softcap);
    row.logits.push_back(visible(s, b, t, k) ? z : -kInfinity);
    top = std::max(top, row.logits.back());
  }
  double total = s.sinks != nullptr ? std::exp(s.sinks[h] - top) : 0.0;
  for (double z : row.logits) total += z == -kInfinity ? 0.0 : std::exp(z - top);
  row.lse = total == 0.0 ? -kInfinity : top + std::log(total);
  for (double z : row.logits) row.probabilities.push_back(z == -kInfinity ? 0.0 : std::exp(z - row.lse));
  return row;
}

Reference reference_of(const Problem& p) {
  const AttentionShape& s = p.shape;
  Reference r;
  r.output.resize(static_cast<std::size_t>(s.batch * s.query_length * s.heads * s.value_dim));
  r.lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.query_length));
  r.query_gradient.resize(p.query.size());
  r.key_gradient.resize(p.key.size());
  r.value_gradient.resize(p.value.size());
  r.sink_gradient.resize(static_cast<std::size_t>(s.heads));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.query_length; ++t) {
        const std::int64_t kh = h / (s.heads / s.key_heads);
        const Row row = softmax_row(p, b, h, t);
        const std::int64_t out = ((b * s.query_length + t) * s.heads + h) * s.value_dim;
        const std::int64_t q = ((b * s.query_length + t) * s.heads + h) * s.head_dim;
        r.lse[(b * s.heads + h) * s.query_length + t] = row.lse;
        std::vector<double> dp(static_cast<std::size_t>(s.key_length));
        double delta = 0.0;
        for (std::int64_t k = 0; k < s.key_length; ++k) {
          if (row.logits[k] == -kInfinity) continue;
          const std::int64_t v = ((b * s.key_length + k) * s.key_heads + kh) * s.value_dim;
          const double keep = keep_factor(s, b, h, t, k);
          for (std::int64_t c = 0; c < s.value_dim; ++c) {
            r.output[out + c] += row.probabilities[k] * keep * p.value[v + c];
            dp[k] += keep * p.output_gradient[out + c] * p.value[v + c];
            r.value_gradient[v + c] += row.probabilities[k] * keep * p.output_gradient[out + c];
          }
          delta += row.probabilities[k] * dp[k];
        }
        if (s.sinks != nullptr) r.sink_gradient[h] -= std::exp(s.sinks[h] - row.lse) * delta;
        for (std::int64_t k = 0; k < s.key_length; ++k) {
          if (row.logits[k] == -kInfinity) continue;
          double dz = row.probabilities[k] * (dp[k] - delta) * s.scale;
          if (s.softcap > 0.0f) dz *= 1.0 - std::pow(row.logits[k] / s.softcap, 2);
          const std::int64_t key = ((b * s.key_length + k) * s.key_heads + kh) * s.head_dim;
          for (std::int64_t c = 0; c < s.head_dim; ++c) {
            r.query_gradient[q + c] += dz * p.key[key + c];
            r.key_gradient[key + c] += dz * p.query[q + c];
          }
        }
      }
    }
  }
  return r;
}

/// Random tensors, rounded to T so that the reference starts from what the kernel sees.
template <class T>
void fill(Problem& p, int seed) {
  const AttentionShape& s = p.shape;
  const auto random = [&](std::int64_t size, int offset) { return random_array<T>(size, seed + offset).values(); };
  p.query = random(s.batch * s.query_length * s.heads * s.head_dim, 1);
  p.key = random(s.batch * s.key_length * s.key_heads * s.head_dim, 2);
  p.value = random(s.batch * s.key_length * s.key_heads * s.value_dim, 3);
  p.output_gradient = random(s.batch * s.query_length * s.heads * s.value_dim, 4);
}

AttentionShape shape_of(std::int64_t batch, std::int64_t tokens, std::int64_t keys, std::int64_t heads, std::int64_t key_heads, std::int64_t head_dim,
                        std::int64_t value_dim) {
  AttentionShape s;
  s.batch = batch;
  s.query_length = tokens;
  s.key_length = keys;
  s.heads = heads;
  s.key_heads = key_heads;
  s.head_dim = head_dim;
  s.value_dim = value_dim;
  s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return s;
}

template <class T, class O = T>
struct Computed {
  Array<O> output;
  Array<float> lse;
  Array<O> query_gradient, key_gradient, value_gradient;
  Array<float> sink_gradient;
};

template <class T, class O = T>
Computed<T, O> compute(const Problem& p, const Reference& r, Isa isa) {
  const AttentionShape& s = p.shape;
  Computed<T, O> c{
      Array<O>(static_cast<std::int64_t>(r.output.size()), kNan),         Array<float>(static_cast<std::int64_t>(r.lse.size()), kNan),
      Array<O>(static_cast<std::int64_t>(r.query_gradient.size()), kNan), Array<O>(static_cast<std::int64_t>(r.key_gradient.size()), kNan),
      Array<O>(static_cast<std::int64_t>(r.value_gradient.size()), kNan), Array<float>(s.heads)};
  const Array<T> query(p.query), key(p.key), value(p.value), dout(p.output_gradient);
  const HeadStrides q = dense(s.query_length, s.heads, s.head_dim), k = dense(s.key_length, s.key_heads, s.head_dim),
                    v = dense(s.key_length, s.key_heads, s.value_dim), o = dense(s.query_length, s.heads, s.value_dim);
  attention_forward(AttentionForward<T, O>{s, query.data(), q, key.data(), k, value.data(), v, c.output.data(), o, c.lse.data()}, isa);
  const Array<T> output(c.output.values());
  AttentionBackward<T, O> backward{s, query.data(), q, key.data(), k, value.data(), v, output.data(), o, c.lse.data(), dout.data(), o};
  backward.query_gradient = c.query_gradient.data();
  backward.query_gradient_strides = q;
  backward.key_gradient = c.key_gradient.data();
  backward.key_gradient_strides = k;
  backward.value_gradient = c.value_gradient.data();
  backward.value_gradient_strides = v;
  backward.sink_gradient = c.sink_gradient.data();
  attention_backward(backward, isa);
  return c;
}

template <class T, class O = T>
void check(const Problem& p) {
  const Reference r = reference_of(p);
  // bf16: the backward pass starts from an output rounded to bf16, which moves delta.
  const double forward_tolerance = 3e-6;
  const double backward_tolerance = std::is_same_v<T, float> ? 5e-6 : 8e-3;
  on_each_isa([&](Isa isa) {
    const auto c = compute<T, O>(p, r, isa);
    expect_close(c.output, r.output, forward_tolerance, "output");
    expect_close(c.lse, r.lse, forward_tolerance, "lse");
    expect_close(c.query_gradient, r.query_gradient, backward_tolerance, "query gradient");
    expect_close(c.key_gradient, r.key_gradient, backward_tolerance, "key gradient");
    expect_close(c.value_gradient, r.value_gradient, backward_tolerance, "value gradient");
    if (p.shape.sinks != nullptr) expect_close(c.sink_gradient, r.sink_gradient, backward_tolerance, "sink gradient");
  });
}

template <class T>
class Attention : public ::testing::Test {};
TYPED_TEST_SUITE(Attention, ElementTypes);

TYPED_TEST(Attention, CausalGroupedQueries) {
  Problem p;
  p.shape = shape_of(2, 150, 150, 6, 2, 64, 64);
  fill<TypeParam>(p, 1);
  check<TypeParam>(p);
}

TYPED_TEST(Attention, OddSizesAndADifferentValueWidth) {
  Problem p;
  p.shape = shape_of(1, 67, 67, 3, 3, 19, 37);
  fill<TypeParam>(p, 2);
  check<TypeParam>(p);
}

TYPED_TEST(Attention, BidirectionalOverLongerKeys) {
  Problem p;
  p.shape = shape_of(2, 13, 131, 4, 1, 32, 16);
  p.shape.causal = false;
  fill<TypeParam>(p, 3);
  check<TypeParam>(p);
}

TYPED_TEST(Attention, SlidingWindow) {
  Problem p;
  p.shape = shape_of(1, 200, 200, 2, 1, 16, 16);
  p.shape.window = 33;
  fill<TypeParam>(p, 4);
  check<TypeParam>(p);
  p.shape.causal = false;
  check<TypeParam>(p);
}

TYPED_TEST(Attention, SoftcapAndSinks) {
  Problem p;
  p.shape = shape_of(2, 70, 70, 4, 2, 24, 24);
  p.shape.softcap = 1.5f;
  p.sinks = {0.5f, -2.0f, 3.0f, 0.0f};
  p.shape.sinks = p.sinks.data();
  fill<TypeParam>(p, 5);
  check<TypeParam>(p);
}

TYPED_TEST(Attention, DocumentsAndPadding) {
  Problem p;
  p.shape = shape_of(2, 150, 150, 2, 2, 32, 32);
  p.document_begin.resize(300);
  p.document_end.resize(300);
  const std::vector<std::int64_t> first{0, 5, 70, 71}, second{0, 128};
  document_intervals(first.data(), 4, 150, 0, p.document_begin.data(), p.document_end.data());
  document_intervals(second.data(), 2, 150, 0, p.document_begin.data() + 150, p.document_end.data() + 150);
  p.shape.document_begin = p.document_begin.data();
  p.shape.document_end = p.document_end.data();
  p.query_lengths = p.key_lengths = {150, 133};
  p.shape.query_lengths = p.query_lengths.data();
  p.shape.key_lengths = p.key_lengths.data();
  fill<TypeParam>(p, 6);
  check<TypeParam>(p);
  p.shape.causal = false;
  check<TypeParam>(p);
}

TYPED_TEST(Attention, GlobalPositionsLeaveSomeQueriesBlind) {
  Problem p;
  p.shape = shape_of(1, 80, 90, 2, 1, 16, 16);
  p.shape.query_start = 100;
  p.shape.key_start = 140;  // queries 0 to 39 precede every key
  fill<TypeParam>(p, 7);
  check<TypeParam>(p);
  p.shape.key_start = 1000;
  check<TypeParam>(p);
}

TYPED_TEST(Attention, Dropout) {
  Problem p;
  p.shape = shape_of(2, 75, 75, 4, 2, 16, 16);
  p.shape.dropout = 0.3f;
  p.shape.dropout_key = 77;
  p.shape.head_start = 4;
  p.samples = {12, 7};
  p.shape.samples = p.samples.data();
  fill<TypeParam>(p, 8);
  check<TypeParam>(p);
}

TEST(Attention, MixedOutputKeepsFullPrecision) {
  Problem p;
  p.shape = shape_of(1, 50, 50, 2, 1, 32, 32);
  fill<bfloat16>(p, 9);
  const Reference r = reference_of(p);
  on_each_isa([&](Isa isa) { expect_close(compute<bfloat16, float>(p, r, isa).output, r.output, 3e-6, "output"); });
  check<bfloat16, float>(p);
}

TEST(Attention, EmptyShapesAreFine) {
  Problem p;
  for (const auto& shape :
       {shape_of(0, 5, 5, 2, 1, 8, 8), shape_of(1, 0, 5, 2, 1, 8, 8), shape_of(1, 5, 0, 2, 1, 8, 8), shape_of(1, 1, 1, 1, 1, 1, 1)}) {
    p.shape = shape;
    fill<float>(p, 10);
    check<float>(p);
  }
}

TEST(Attention, NanReachesOnlyWhatSeesIt) {
  Problem p;
  p.shape = shape_of(1, 90, 90, 1, 1, 16, 16);
  fill<float>(p, 11);
  p.key[70 * 16] = kNan;
  on_each_isa([&](Isa isa) {
    const auto c = compute<float>(p, reference_of(p), isa);
    for (std::int64_t t = 0; t < 90; ++t) EXPECT_EQ(std::isnan(c.output.at(t * 16)), t >= 70) << t;
    EXPECT_TRUE(std::isnan(c.lse.at(70)));
  });
}

TEST(Attention, ReferenceAgreesWithNumericDifferentiation) {
  Problem p;
  p.shape = shape_of(1, 4, 5, 2, 1, 3, 2);
  p.shape.query_start = 1;
  p.shape.softcap = 2.0f;
  p.sinks = {0.1f, -0.2f};
  p.shape.sinks = p.sinks.data();
  p.shape.dropout = 0.2f;
  fill<float>(p, 12);
  const Reference r = reference_of(p);
  const auto agrees = [&](std::vector<double> Problem::* input, const std::vector<double>& gradient) {
    const auto numeric = numeric_gradient(p.*input, [&](const std::vector<double>& x) {
      Problem moved = p;
      moved.*input = x;
      const Reference at = reference_of(moved);
      double total = 0.0;
      for (std::size_t i = 0; i < at.output.size(); ++i) total += at.output[i] * p.output_gradient[i];
      return total;
    });
    for (std::size_t i = 0; i < numeric.size(); ++i) EXPECT_NEAR(gradient[i], numeric[i], 1e-8);
  };
  agrees(&Problem::query, r.query_gradient);
  agrees(&Problem::key, r.key_gradient);
  agrees(&Problem::value, r.value_gradient);
}

/// Two halves of the keys, merged by their lse, are the whole; the backward pass of each half with the merged lse gives its share.
TEST(Attention, HalvesOfTheKeysMergeExactly) {
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

TEST(Attention, RepeatableAndSplitOverThreads) {
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

TEST(Attention, StridedRowsOfAFusedProjection) {
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

TEST(DocumentIntervals, LastBoundaryOpensATail) {
  const std::vector<std::int64_t> boundaries{0, 2, 3};
  std::vector<std::int64_t> begin(5), end(5);
  document_intervals(boundaries.data(), 3, 5, 10, begin.data(), end.data());
  EXPECT_EQ(begin, (std::vector<std::int64_t>{10, 10, 12, 13, 13}));
  EXPECT_EQ(end, (std::vector<std::int64_t>{12, 12, 13, 15, 15}));
}

}  // namespace
}  // namespace tessera::ops::cpu::test
