#include "tessera/ops/attention.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ops/trial.h"
#include "tessera/ops/cpu/dropout.h"

namespace tessera::ops::test {
namespace {

struct Shape {
  std::int64_t batch = 2, queries = 11, keys = 11, heads = 4, key_heads = 2, head_dim = 6;
};

std::int64_t document_of(const std::vector<std::int64_t>& starts, std::int64_t position) {
  return std::upper_bound(starts.begin(), starts.end(), position) - starts.begin();
}

/// Whether the options let query t (at query_start + t) of a row see key s.
bool sees(const AttentionOptions& options, std::size_t row, std::int64_t t, std::int64_t s) {
  const std::int64_t position = options.query_start + t;
  if (s > position) return false;
  if (options.sliding_window && position - s >= *options.sliding_window) return false;
  if (!options.document_starts.empty()) {
    const auto& starts = options.document_starts[row];
    if (document_of(starts, position) != document_of(starts, s)) return false;
  }
  return options.lengths.empty() || (s < options.lengths[row] && position < options.lengths[row]);
}

at::Tensor visible(const AttentionOptions& options, const Shape& shape) {
  at::Tensor result = at::zeros({shape.batch, 1, shape.queries, shape.keys}, at::kDouble);
  double* data = result.data_ptr<double>();
  for (std::int64_t row = 0; row < shape.batch; ++row)
    for (std::int64_t t = 0; t < shape.queries; ++t)
      for (std::int64_t s = 0; s < shape.keys; ++s)
        data[(row * shape.queries + t) * shape.keys + s] = sees(options, static_cast<std::size_t>(row), t, s) ? 1.0 : 0.0;
  return result;
}

/// 0 or 1 / (1 − p) for every attention weight [B, H, T, S].
at::Tensor dropout_mask(const AttentionOptions& options, const Shape& shape) {
  at::Tensor result = at::zeros({shape.batch, shape.heads, shape.queries, shape.keys}, at::kDouble);
  double* data = result.data_ptr<double>();
  for (std::int64_t row = 0; row < shape.batch; ++row)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t t = 0; t < shape.queries; ++t) {
        const auto sample = static_cast<std::uint64_t>(options.sample_numbers[static_cast<std::size_t>(row)]);
        const std::uint64_t key =
            cpu::dropout_row_key(options.dropout_key, sample, static_cast<std::uint64_t>(head), static_cast<std::uint64_t>(options.query_start + t));
        for (std::int64_t s = 0; s < shape.keys; ++s, ++data)
          if (cpu::dropout_word(key, static_cast<std::uint32_t>(s)) >= cpu::dropout_threshold(static_cast<float>(options.dropout)))
            *data = 1.0 / (1.0 - options.dropout);
      }
  return result;
}

/// softmax over what is visible, written out; rows that see nothing are zero. [B·T, H·C].
at::Tensor formula(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options, const Shape& shape) {
  const auto heads_first = [&](const at::Tensor& heads) { return heads.transpose(1, 2).repeat_interleave(shape.heads / heads.size(2), 1); };
  at::Tensor logits = at::matmul(heads_first(query), heads_first(key).transpose(2, 3)) * options.scale;
  if (options.soft_cap) logits = (logits / *options.soft_cap).tanh() * *options.soft_cap;
  const at::Tensor mask = visible(options, shape);
  const at::Tensor weights = (logits + (mask - 1.0) * 1e9).softmax(-1) * mask;
  const at::Tensor kept = options.dropout > 0.0 ? weights * dropout_mask(options, shape) : weights;
  return at::matmul(kept, heads_first(value)).transpose(1, 2).reshape({shape.batch * shape.queries, -1});
}

void expect_attention(const Precision& precision, const AttentionOptions& options, const Shape& shape = {}) {
  Trial trial(precision);
  Trial::Leaf& query = trial.activation("query", {shape.batch, shape.queries, shape.heads, shape.head_dim});
  Trial::Leaf& key = trial.activation("key", {shape.batch, shape.keys, shape.key_heads, shape.head_dim});
  Trial::Leaf& value = trial.activation("value", {shape.batch, shape.keys, shape.key_heads, shape.head_dim});
  trial.expect(attention(trial.tape(), query.variable, key.variable, value.variable, options),
               formula(query.twin, key.twin, value.twin, options, shape));
}

class Attention : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Attention, every_precision(), precision_name);

TEST_P(Attention, CausalAtOddSizes) {
  for (const Shape& shape : {Shape{}, Shape{1, 1, 1, 1, 1, 1}, Shape{3, 37, 37, 3, 3, 5}, Shape{1, 70, 70, 6, 1, 16}})
    expect_attention(GetParam(), {.scale = 0.4}, shape);
}
TEST_P(Attention, SlidingWindow) {
  for (const std::int64_t window : {1, 3, 100}) expect_attention(GetParam(), {.scale = 0.4, .sliding_window = window});
}
TEST_P(Attention, SoftCap) { expect_attention(GetParam(), {.scale = 1.3, .soft_cap = 2.0}); }
TEST_P(Attention, Lengths) { expect_attention(GetParam(), {.scale = 0.4, .lengths = {11, 4}}); }
TEST_P(Attention, Documents) { expect_attention(GetParam(), {.scale = 0.4, .document_starts = {{0, 3, 4, 9}, {0}}}); }
TEST_P(Attention, EverythingAtOnce) {
  expect_attention(GetParam(), {.scale = 0.8, .soft_cap = 3.0, .sliding_window = 4, .lengths = {11, 8}, .document_starts = {{0, 6}, {0, 2, 7}}});
}
TEST_P(Attention, QueriesThatStartLater) { expect_attention(GetParam(), {.scale = 0.4, .sliding_window = 6, .query_start = 5}, {.queries = 6}); }

// Inputs as they come from a fused projection: strided views of one matrix.
TEST_P(Attention, TakesStridedHeads) {
  Tape tape;
  const at::Tensor matrix = random_tensor({2, 5, 8 * 4}, 1, GetParam().type).view({2, 5, 8, 4});
  const auto part = [&](std::int64_t head, std::int64_t count) { return tape.variable(matrix.narrow(2, head, count)); };
  const at::Tensor output = attention(tape, part(0, 4), part(4, 2), part(6, 2), {.scale = 0.5}).value;
  const at::Tensor wide = matrix.to(at::kDouble);
  const at::Tensor expected = formula(wide.narrow(2, 0, 4), wide.narrow(2, 4, 2), wide.narrow(2, 6, 2), {.scale = 0.5}, {2, 5, 5, 4, 2, 4});
  EXPECT_LE(relative_error(output, expected), GetParam().tolerance);
}

class AttentionDropout : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, AttentionDropout, testing::Values(kSingle, kDouble, kHalf), precision_name);

TEST_P(AttentionDropout, MultipliesTheWeightsByTheMask) {
  expect_attention(GetParam(), {.scale = 0.4, .dropout = 0.25, .dropout_key = 9, .sample_numbers = {31, 4}});
  expect_attention(GetParam(), {.scale = 0.4, .sliding_window = 5, .lengths = {9, 11}, .dropout = 0.5, .dropout_key = 8, .sample_numbers = {2, 3}});
}

TEST_P(AttentionDropout, DoesNothingInInference) {
  Tape inference(Tape::Mode::Inference);
  const auto heads = [&](unsigned seed) { return Variable{random_tensor({1, 7, 2, 4}, seed, GetParam().type), nullptr, nullptr}; };
  const auto run = [&](double dropout) {
    return attention(inference, heads(1), heads(2), heads(3), {.scale = 0.5, .dropout = dropout, .dropout_key = 1, .sample_numbers = {0}}).value;
  };
  EXPECT_TRUE(bitwise_equal(run(0.0), run(0.5)));
}

class DecodeAttention : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, DecodeAttention, testing::Values(kSingle, kHalf), precision_name);

TEST_P(DecodeAttention, IsTheLastQueryOfTheWholeSequence) {
  for (const AttentionOptions& options :
       {AttentionOptions{.scale = 0.4}, AttentionOptions{.scale = 0.4, .sliding_window = 5}, AttentionOptions{.scale = 1.4, .soft_cap = 2.0}}) {
    for (const std::int64_t length : {1, 4, 23}) {
      const at::Tensor query = random_tensor({2, 1, 4, 6}, 1, GetParam().type);
      const at::Tensor key = random_tensor({2, 23, 2, 6}, 2, GetParam().type), value = random_tensor({2, 23, 2, 6}, 3, GetParam().type);
      const at::Tensor output = decode_attention(query, key, value, {length, 23}, options);
      for (const std::int64_t row : {0, 1}) {
        const std::int64_t keys = row == 0 ? length : 23;
        const auto part = [&](const at::Tensor& cache) { return cache.narrow(0, row, 1).narrow(1, 0, keys).to(at::kDouble); };
        AttentionOptions last = options;
        last.query_start = keys - 1;
        const at::Tensor expected = formula(query.narrow(0, row, 1).to(at::kDouble), part(key), part(value), last, {1, 1, keys, 4, 2, 6});
        EXPECT_LE(relative_error(output.narrow(0, row, 1), expected), GetParam().tolerance) << "length " << keys;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::ops::test
