#include "tessera/model/activation_memory.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "model/rows.h"
#include "support/allocation_counter.h"
#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/ops/bfloat16_gemm.h"

namespace tessera::model::test {
namespace {

using tessera::test::AllocationCounter;

/// Wide and long enough that the terms that count with real models count here; `vocabulary` decides whether the loss or a block is the peak.
ModelSpec spec_of(const std::string& family, std::int64_t vocabulary) {
  Json config = {{"model_type", family},        {"vocab_size", vocabulary},      {"hidden_size", 128},       {"intermediate_size", 352},
                 {"num_hidden_layers", 6},      {"num_attention_heads", 8},      {"num_key_value_heads", 2}, {"head_dim", 16},
                 {"tie_word_embeddings", true}, {"max_position_embeddings", 512}};
  if (family == "gpt2") {
    config = {{"model_type", "gpt2"}, {"vocab_size", vocabulary}, {"n_embd", 128},     {"n_layer", 6},     {"n_head", 8},
              {"n_positions", 512},   {"resid_pdrop", 0.1},       {"attn_pdrop", 0.0}, {"embd_pdrop", 0.0}};
  }
  return model_spec_from_json(config, "test");
}

struct Case {
  std::string family;
  std::int64_t vocabulary;
  DType dtype;
  ActivationCheckpointing checkpointing;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const char* const modes[] = {"None", "Full", "Selective"};
  return c.family + std::to_string(c.vocabulary) + (c.dtype == DType::F32 ? "Float32" : "Bfloat16") + modes[static_cast<int>(c.checkpointing)];
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const char* const family : {"llama", "qwen3", "gemma2", "gpt2"})
    for (const std::int64_t vocabulary : {320, 20000})
      for (const DType dtype : {DType::F32, DType::BF16})
        for (const auto mode : {ActivationCheckpointing::None, ActivationCheckpointing::Full, ActivationCheckpointing::Selective})
          list.push_back({family, vocabulary, dtype, mode});
  return list;
}

/// Peak bytes of forward and backward of 4 rows of 200 tokens, every position a label.
std::int64_t measured_peak(const ModelSpec& spec, DType dtype, ActivationCheckpointing mode) {
  CausalLM model = CausalLM::from_config(spec, 1, {.dtype = dtype, .trainable = true, .decoder = {.activation_checkpointing = mode}});
  std::vector<Row> rows;
  for (unsigned row = 0; row < 4; ++row) {
    rows.push_back(document(200, row, row));
    for (std::int64_t& label : rows.back().labels) label = label < 0 ? 1 : label;
  }
  const AllocationCounter counter;
  const Batch batch = make_batch(rows);
  model.store->start_gradients();
  ops::Tape tape;
  [&] {  // as in training, nobody holds the hidden states during backward
    const ops::Variable hidden = model.decoder->hidden(tape, batch.inputs).states;
    model.decoder->loss(tape, hidden, batch.labels_BT.reshape({-1}), 0.01);
  }();
  tape.backward();
  return counter.peak();
}

class ActivationMemory : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, ActivationMemory, testing::ValuesIn(cases()), name_of);

TEST_P(ActivationMemory, EstimateIsWhatIsAllocated) {
  const ModelSpec spec = spec_of(GetParam().family, GetParam().vocabulary);
  const auto measured = static_cast<double>(measured_peak(spec, GetParam().dtype, GetParam().checkpointing));
  const auto estimated = static_cast<double>(activation_bytes(spec, {.compute_dtype = GetParam().dtype,
                                                                     .num_rows = 4,
                                                                     .length = 200,
                                                                     .activation_checkpointing = GetParam().checkpointing,
                                                                     .bfloat16_gemm = ops::has_bfloat16_gemm(at::empty({0}, at::kBFloat16))})
                                                 .most());
  EXPECT_NEAR(estimated / measured, 1.0, 0.1) << "estimated " << estimated << ", measured " << measured;
}

/// What a block of a llama keeps: its input, queries with keys and values, the first residual sum, gate and up; not attention's output.
TEST(SelectiveCheckpointing, KeepsTheOutputsOfMatrixProductsOnly) {
  for (const char* const family : {"llama", "qwen3"}) {
    const ModelSpec spec = spec_of(family, 320);
    const std::int64_t none = measured_peak(spec, DType::F32, ActivationCheckpointing::None);
    const std::int64_t selective = measured_peak(spec, DType::F32, ActivationCheckpointing::Selective);
    const std::int64_t attention = 4 * 200 * (128 + 8) * 4;                                        // output and log-sum-exp of one layer
    const std::int64_t head_norm = std::string(family) == "qwen3" ? 4 * 200 * (128 + 64) * 4 : 0;  // queries and keys before their norm
    EXPECT_GT(none - selective, 5 * (attention + head_norm)) << family;                            // of six layers one may run again at the peak
  }
}

}  // namespace
}  // namespace tessera::model::test
