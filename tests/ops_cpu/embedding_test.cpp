#include "tessera/ops/cpu/embedding.h"

#include <omp.h>

#include "ops_cpu/kernel_support.h"

namespace tessera::ops::cpu::test {
namespace {

template <class T>
class Embedding : public ::testing::Test {};
TYPED_TEST_SUITE(Embedding, ElementTypes);

constexpr std::int64_t kVocabulary = 11, kWidth = 21;
const std::vector<std::int64_t> kIds{4, 0, 4, 10, 25, -3, 7, 4, 14};

TYPED_TEST(Embedding, GathersASliceAndScales) {
  using T = TypeParam;
  const auto table = random_array<T>(kVocabulary * kWidth, 1);
  for (const std::int64_t first : {0, 4}) {
    for (const float scale : {1.0f, 3.7f}) {
      std::vector<double> expected;
      for (std::int64_t id : kIds) {
        const bool here = id >= first && id < first + kVocabulary;
        for (std::int64_t c = 0; c < kWidth; ++c) expected.push_back(here ? table.at((id - first) * kWidth + c) * static_cast<double>(scale) : 0.0);
      }
      on_each_isa([&](Isa isa) {
        Array<T> y(static_cast<std::int64_t>(kIds.size()) * kWidth, kNan);
        embedding_forward(
            EmbeddingForward<T>{static_cast<std::int64_t>(kIds.size()), kWidth, kVocabulary, first, kIds.data(), table.data(), scale, y.data()}, isa);
        expect_close(y, expected, 1e-7, "y");
      });
    }
  }
}

TYPED_TEST(Embedding, ScattersAndAdds) {
  using T = TypeParam;
  const auto dy = random_array<T>(static_cast<std::int64_t>(kIds.size()) * kWidth, 1);
  std::vector<double> expected(kVocabulary * kWidth, 0.25);
  for (std::size_t t = 0; t < kIds.size(); ++t) {
    if (kIds[t] < 0 || kIds[t] >= kVocabulary) continue;
    for (std::int64_t c = 0; c < kWidth; ++c) expected[kIds[t] * kWidth + c] += 2.0 * dy.at(static_cast<std::int64_t>(t) * kWidth + c);
  }
  on_each_isa([&](Isa isa) {
    Array<float> gradient(kVocabulary * kWidth, 0.25);
    EmbeddingBackward<T> args{static_cast<std::int64_t>(kIds.size()), kWidth, kVocabulary, 0, kIds.data(), dy.data(), 2.0f, gradient.data()};
    embedding_backward(args, isa);
    expect_close(gradient, expected, 1e-6, "gradient");
  });
}

TEST(Embedding, SumIsTheSameOnAnyNumberOfThreads) {
  constexpr std::int64_t kTokens = 5000;
  const auto dy = random_array<float>(kTokens * kWidth, 1);
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < kTokens; ++t) ids.push_back(t * t % kVocabulary);
  const auto gradient = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    Array<float> total(kVocabulary * kWidth);
    embedding_backward(EmbeddingBackward<float>{kTokens, kWidth, kVocabulary, 0, ids.data(), dy.data(), 1.0f, total.data()});
    omp_set_num_threads(before);
    return total.values();
  };
  EXPECT_EQ(gradient(1), gradient(4));
}

}  // namespace
}  // namespace tessera::ops::cpu::test
