#include "tessera/ops/cpu/attention.h"

#include "ops_cpu/attention_support.h"

namespace tessera::ops::cpu::test {
namespace {

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

TYPED_TEST(Attention, OverKeysThatBeginBeforeTheQueries) {
  Problem p;
  p.shape = shape_of(2, 13, 131, 4, 1, 32, 16);
  p.shape.query_start = 118;
  fill<TypeParam>(p, 3);
  check<TypeParam>(p);
}

TYPED_TEST(Attention, SlidingWindow) {
  Problem p;
  p.shape = shape_of(1, 200, 200, 2, 1, 16, 16);
  p.shape.window = 33;
  fill<TypeParam>(p, 4);
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
  const std::vector<std::int64_t> first{0, 5, 70, 71}, second{0, 128};
  document_begins(first.data(), 4, 150, 0, p.document_begin.data());
  document_begins(second.data(), 2, 150, 0, p.document_begin.data() + 150);
  p.shape.document_begin = p.document_begin.data();
  p.query_lengths = p.key_lengths = {150, 133};
  p.shape.query_lengths = p.query_lengths.data();
  p.shape.key_lengths = p.key_lengths.data();
  fill<TypeParam>(p, 6);
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

TEST(DocumentBegins, LastBoundaryOpensATail) {
  const std::vector<std::int64_t> boundaries{0, 2, 3};
  std::vector<std::int64_t> begin(5);
  document_begins(boundaries.data(), 3, 5, 10, begin.data());
  EXPECT_EQ(begin, (std::vector<std::int64_t>{10, 10, 12, 13, 13}));
}

}  // namespace
}  // namespace tessera::ops::cpu::test
