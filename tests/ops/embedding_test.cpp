#include "tessera/ops/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "ops/trial.h"
#include "tessera/ops/linear.h"

namespace tessera::ops::test {
namespace {

class Embedding : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Embedding, every_precision(), precision_name);

const std::vector<std::int64_t> kIds = {4, 0, 4, 8, 1, 4, 4, 0, 7, 8, 2};  // repeated and unused rows

TEST_P(Embedding, LooksUpRowsAndAddsTheirGradients) {
  for (const double scale : {1.0, 2.5}) {
    for (const std::int64_t width : {1, 19, 64}) {
      Trial trial(GetParam());
      Trial::Leaf& table = trial.weight("table", {9, width});
      const at::Tensor ids = index_tensor(kIds);
      trial.expect(embedding(trial.tape(), ids, table.parameter, scale), table.twin.index_select(0, ids) * scale);
    }
  }
}

TEST_P(Embedding, OneToken) {
  Trial trial(GetParam());
  Trial::Leaf& table = trial.weight("table", {9, 12});
  const at::Tensor ids = index_tensor({8});
  trial.expect(embedding(trial.tape(), ids, table.parameter), table.twin.index_select(0, ids));
}

TEST_P(Embedding, AFrozenTableGetsNothing) {
  Trial trial(GetParam());
  Trial::Leaf& table = trial.weight("table", {9, 12}, 1.0, 0.0, false);
  const at::Tensor ids = index_tensor(kIds);
  trial.expect(embedding(trial.tape(), ids, table.parameter), table.twin.index_select(0, ids));
  EXPECT_FALSE(table.parameter.gradient_written);
}

// A tied head: one weight, two uses, one gradient.
TEST_P(Embedding, SharesItsTableWithAProjection) {
  Trial trial(GetParam());
  Trial::Leaf& table = trial.weight("table", {9, 12});
  const at::Tensor ids = index_tensor(kIds);
  const Variable rows = embedding(trial.tape(), ids, table.parameter, 0.5);
  trial.expect(linear(trial.tape(), rows, table.parameter), at::matmul(table.twin.index_select(0, ids) * 0.5, table.twin.t()));
}

TEST_P(Embedding, DeferredGradientsAreTheSameBits) {
  const at::Tensor ids = index_tensor(kIds), gradient = random_tensor({11, 12}, 2, GetParam().type);
  Parameter now = make_parameter(random_tensor({9, 12}, 1, GetParam().type)), later = make_parameter(now.weight);
  WeightGradientQueue queue;
  later.queue = &queue;
  for (Parameter* table : {&now, &later}) {
    for (int step = 0; step < 2; ++step) {
      Tape tape;
      embedding(tape, ids, *table, 3.0).gradient->add_shared(gradient);
      tape.backward();
    }
  }
  // The output's slot died with the temporary, but the tape's closure holds it.
  EXPECT_FALSE(later.gradient_written);
  queue.drain();
  EXPECT_TRUE(bitwise_equal(now.gradient, later.gradient));
}

TEST(WidenedEmbedding, GivesTheRowsInFp32) {
  Parameter narrow = make_parameter(random_tensor({9, 12}, 1, at::kBFloat16), false);
  narrow.widened = true;
  Parameter wide = make_parameter(narrow.weight.to(at::kFloat), false);
  const at::Tensor ids = index_tensor(kIds);
  for (const double scale : {1.0, 1.7}) {
    Tape tape(Tape::Mode::Inference);
    EXPECT_TRUE(bitwise_equal(embedding(tape, ids, narrow, scale).value, embedding(tape, ids, wide, scale).value));
  }
}

}  // namespace
}  // namespace tessera::ops::test
