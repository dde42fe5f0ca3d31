#include "tessera/model/decoder.h"

#include <ATen/ops/equal.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "model/rows.h"
#include "support/support.h"
#include "tessera/model/causal_lm.h"
#include "tessera/model/config.h"

namespace tessera::model::test {
namespace {

using tessera::test::test_data;

CausalLM load(const std::string& name, CausalLMOptions options = {}, double dropout = 0.0) {
  options.trainable = true;
  ModelSpec spec = read_model_spec(test_data("goldens/" + name));
  spec.attention_dropout = spec.residual_dropout = spec.embedding_dropout = dropout;
  return CausalLM::from_pretrained(test_data("goldens/" + name), spec, options);
}

/// The final hidden states of a batch, [B, T, D].
at::Tensor hidden(const CausalLM& model, const Batch& batch) {
  ops::Tape tape(ops::Tape::Mode::Inference);
  return model.decoder->hidden(tape, batch.inputs).states.value.view({batch.inputs.num_rows(), batch.inputs.length(), -1});
}

const char* const kFamilies[] = {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3", "phi3_longrope"};

class Families : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Goldens, Families, testing::ValuesIn(kFamilies), [](const auto& info) { return std::string(info.param); });

// Lengths on both sides of phi3's original context (16) and of gemma2's window (8).
std::vector<Row> ragged_rows() { return {document(21, 1, 4), document(5, 2, 9), document(16, 3, 2), document(1, 4, 7)}; }

TEST_P(Families, WhatPaddingHoldsChangesNoBit) {
  CausalLM model = load(GetParam());
  EXPECT_TRUE(same_bits(run(model, {make_batch(ragged_rows(), 24, 0)}), run(model, {make_batch(ragged_rows(), 24, 299)})));
}

TEST_P(Families, PaddedRowsAreTheRowsAlone) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    CausalLM model = load(GetParam(), {.dtype = dtype});
    std::vector<Batch> alone;
    for (const Row& row : ragged_rows()) alone.push_back(make_batch({row}));
    const Pass expected = run(model, alone);
    const double tolerance = dtype == DType::F32 ? 1e-5 : 1e-11;
    EXPECT_EQ(difference(model, run(model, {make_batch(ragged_rows())}), expected, tolerance), "");
    EXPECT_EQ(difference(model, run(model, {make_batch(ragged_rows(), 40)}), expected, tolerance), "");
  }
}

TEST_P(Families, AnEarlierTokenDoesNotSeeALaterOne) {
  CausalLM model = load(GetParam());
  Row row = document(14, 1);
  const at::Tensor before = hidden(model, make_batch({row}));
  row.ids[9] = (row.ids[9] + 1) % 300;
  const at::Tensor after = hidden(model, make_batch({row}));
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 9), after.narrow(1, 0, 9)));
  EXPECT_FALSE(at::equal(before.narrow(1, 9, 1), after.narrow(1, 9, 1)));
}

class Packing : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Goldens, Packing, testing::Values("llama_tied_llama3_rope", "gpt2", "gemma2", "phi3_longrope"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Packing, GivesTheDocumentsAlone) {
  // The second document outgrows phi3's original context and gemma2's window; the row they share outgrows both.
  const std::vector<Row> first = {document(5, 1), document(20, 2), document(7, 3)}, second = {document(9, 4), document(1, 5)};
  std::vector<Batch> alone;
  for (const std::vector<Row>& rows : {first, second})
    for (const Row& row : rows) alone.push_back(make_batch({row}));
  for (const DType dtype : {DType::F32, DType::F64}) {
    CausalLM model = load(GetParam(), {.dtype = dtype});
    const Pass expected = run(model, alone);
    const double tolerance = dtype == DType::F32 ? 1e-5 : 1e-11;
    EXPECT_EQ(difference(model, run(model, {make_batch({pack(first), pack(second)}, 0, 0, true)}), expected, tolerance), "");
    EXPECT_EQ(difference(model, run(model, {make_batch({pack(first), pack(second)}, 37, 0, true)}), expected, tolerance), "");
  }
}

TEST_P(Packing, WithoutBoundariesIsSomethingElse) {
  CausalLM model = load(GetParam());
  const Row packed = pack({document(5, 1), document(20, 2)});
  EXPECT_NE(difference(model, run(model, {make_batch({packed})}), run(model, {make_batch({packed}, 0, 0, true)}), 1e-4), "");
}

class Recomputation : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Goldens, Recomputation, testing::ValuesIn(kFamilies), [](const auto& info) { return std::string(info.param); });

TEST_P(Recomputation, ChangesNoBit) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    for (const double dropout : {0.0, 0.1}) {
      if (dropout > 0.0 && dtype == DType::F64) continue;  // the composites have no dropout
      std::optional<Pass> plain;
      for (const auto mode : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
        CausalLM model = load(GetParam(), {.dtype = dtype, .decoder = {.activation_checkpointing = mode}}, dropout);
        const Pass pass = run(model, {make_batch(ragged_rows()), make_batch({document(13, 6, 3)})}, 5);
        if (!plain) plain = pass;
        EXPECT_TRUE(same_bits(pass, *plain)) << "mode " << static_cast<int>(mode) << ", dropout " << dropout;
      }
    }
  }
}

CausalLM dropping_gpt2(std::uint64_t seed = 7) { return load("gpt2", {.decoder = {.dropout_seed = seed}}, 0.1); }

TEST(DecoderDropout, IsAFunctionOfSeedStepAndSample) {
  CausalLM model = dropping_gpt2(), again = dropping_gpt2(), other_seed = dropping_gpt2(8);
  const Batch batch = make_batch(ragged_rows());
  const Pass pass = run(model, {batch}, 3);
  EXPECT_TRUE(same_bits(pass, run(model, {batch}, 3)));
  EXPECT_TRUE(same_bits(pass, run(again, {batch}, 3)));
  EXPECT_NE(pass.loss, run(model, {batch}, 4).loss);
  EXPECT_NE(pass.loss, run(other_seed, {batch}, 3).loss);
  std::vector<Row> renumbered = ragged_rows();
  renumbered[0].number = 100;
  EXPECT_NE(pass.loss, run(model, {make_batch(renumbered)}, 3).loss);
}

TEST(DecoderDropout, DoesNotDependOnHowTheBatchIsSplit) {
  CausalLM model = dropping_gpt2();
  const std::vector<Row> rows = ragged_rows();
  const Pass together = run(model, {make_batch(rows)}, 3);
  const Pass reordered = run(model, {make_batch({rows[2], rows[0], rows[3], rows[1]})}, 3);
  const Pass split = run(model, {make_batch({rows[1], rows[3]}), make_batch({rows[0]}), make_batch({rows[2]}, 30)}, 3);
  EXPECT_EQ(difference(model, reordered, together, 1e-5), "");
  EXPECT_EQ(difference(model, split, together, 1e-5), "");
}

TEST(DecoderDropout, EveryPlaceDropsByItself) {
  const Batch batch = make_batch(ragged_rows());
  CausalLM plain = load("gpt2");
  const double without = run(plain, {batch}).loss;
  for (const auto place : {&ModelSpec::attention_dropout, &ModelSpec::residual_dropout, &ModelSpec::embedding_dropout}) {
    ModelSpec spec = read_model_spec(test_data("goldens/gpt2"));
    spec.*place = 0.1;
    CausalLM model = CausalLM::from_pretrained(test_data("goldens/gpt2"), spec, {.trainable = true});
    const double with = run(model, {batch}).loss;
    EXPECT_NE(with, without);
    EXPECT_NEAR(with, without, 0.1 * without);
  }
}

TEST(DecoderDropout, NothingIsDroppedInInference) {
  const Batch batch = make_batch(ragged_rows());
  EXPECT_TRUE(at::equal(hidden(dropping_gpt2(), batch), hidden(load("gpt2"), batch)));
}

/// Counts the bytes that this thread's tensors hold, as libtorch's allocator tells its profilers.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override { bytes += size; }
  void reportOutOfMemory(std::int64_t, std::size_t, std::size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes = 0;
};

/// What a tape holds between forward and backward.
struct Held {
  std::int64_t bytes;
  std::size_t closures;
};

Held held_by_tape(ActivationCheckpointing mode, const Batch& batch) {
  const CausalLM model = load("llama_tied_llama3_rope", {.decoder = {.activation_checkpointing = mode}});
  const auto counter = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  ops::Tape tape;
  const ops::Variable output = model.decoder->hidden(tape, batch.inputs).states;
  return {counter->bytes, tape.size()};
}

TEST(Recomputation, FullKeepsOnlyTheInputsOfBlocks) {
  const Batch batch = make_batch({document(60, 1), document(60, 2)});
  const Held none = held_by_tape(ActivationCheckpointing::None, batch), selective = held_by_tape(ActivationCheckpointing::Selective, batch),
             full = held_by_tape(ActivationCheckpointing::Full, batch);
  constexpr std::int64_t kLayers = 4, kTokens = 120, kHidden = 64;
  EXPECT_EQ(full.closures, static_cast<std::size_t>(kLayers + 2));  // embedding, blocks, final norm
  // Inputs of the blocks and of the final norm, its output, and cosines and sines of the angles.
  const std::int64_t matrices = (kLayers + 2) * kTokens * kHidden * 4, small = 20'000;
  EXPECT_GE(full.bytes, matrices);
  EXPECT_LE(full.bytes, matrices + small);
  EXPECT_LT(full.bytes, none.bytes / 4);
  EXPECT_LT(selective.bytes, none.bytes);
}

/// The gradient of the loss by units [0, cut) and then the rest, each with a tape of its own, as two pipeline stages hand over to each other.
Pass run_in_two(CausalLM& model, const Batch& batch, int cut) {
  const int num_units = static_cast<int>(model.store->table().num_units);
  Pass pass;
  model.store->start_gradients();
  ops::Tape first, second;
  const ops::Variable given = model.decoder->run_units(first, batch.inputs, {0, cut}, {}, 3);
  const ops::Variable taken = second.variable(given.value);
  const ops::Variable hidden =
      model.decoder->enter_head(second, model.decoder->run_units(second, batch.inputs, {cut, num_units - 1}, taken, 3)).states;
  pass.loss = model.decoder->loss(second, hidden, batch.labels_BT.reshape({-1}), 0.01).sum;
  second.backward();
  taken.gradient->hand_over(*given.gradient);
  first.backward();
  model.store->finish_gradients();
  for (std::size_t index = 0; index < model.store->table().parameters.size(); ++index)
    pass.gradients.push_back(model.store->parameter(index).gradient.clone());
  return pass;
}

TEST_P(Families, UnitsInTwoPartsAreTheWholeModel) {
  const Batch batch = make_batch(ragged_rows());
  for (const auto mode : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
    CausalLM model = load(GetParam(), {.decoder = {.activation_checkpointing = mode}}, 0.2);
    const Pass expected = run(model, {batch}, 3);
    for (int cut = 1; cut < static_cast<int>(model.store->table().num_units); ++cut)
      EXPECT_TRUE(same_bits(run_in_two(model, batch, cut), expected)) << cut;
  }
}

TEST(DecoderPrecision, Bf16IsNearFp32) {
  const Batch batch = make_batch(ragged_rows());
  for (const char* const name : kFamilies) {
    CausalLM single = load(name, {.dtype = DType::F32}), half = load(name, {.dtype = DType::BF16});
    EXPECT_EQ(difference(single, run(half, {batch}), run(single, {batch}), 0.15), "") << name;
  }
}

}  // namespace
}  // namespace tessera::model::test
