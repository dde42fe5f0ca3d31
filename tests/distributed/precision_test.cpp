// What of a model computes in another dtype than the rest, over ranks.
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>

#include "distributed/expert_models.h"
#include "distributed/ranks.h"
#include "tessera/model/config.h"
#include "tessera/parallel/causal_lm.h"
#include "tessera/parallel/whole_tensors.h"
#include "tessera/train/step.h"

namespace tessera::test {
namespace {

model::Inputs three_rows() {
  return {.input_ids_BT = at::arange(3 * 7, at::kLong).remainder(61).view({3, 7}),
          .position_ids_BT = at::arange(7, at::kLong).expand({3, 7}).contiguous(),
          .lengths = {7, 7, 7},
          .sample_numbers = {0, 1, 2},
          .document_starts = {}};
}

/// distributed.moe.lm_head_precision: the logits of a bf16 model are those of its hidden states and fp32 weights, whoever holds them.
RANKS_TEST(Precision, TheHeadOfAHalfPrecisionModelInSinglePrecision, 2) {
  Json config = small_expert_model("qwen3_moe", 2);
  config["tie_word_embeddings"] = false;
  const model::ModelSpec spec = model::model_spec_from_json(config, "small");
  for (const bool single : {false, true}) {
    config::Distributed distributed{.sizes = {.ep_size = 2}};
    if (single) distributed.moe.emplace().lm_head_precision = DType::F32;
    const auto setup = parallel::DistributedSetup::build(backend(), distributed);
    const auto model = parallel::CausalLM::from_config(spec, 7, setup, {.dtype = DType::BF16, .trainable = true});
    ops::Tape tape(ops::Tape::Mode::Inference);
    const at::Tensor hidden = model.model.decoder->hidden(tape, three_rows()).states.value;
    const at::Tensor head = parallel::whole_weights(model).at("lm_head.weight");
    const at::Tensor logits = parallel::whole_logits(model, three_rows()), exact = at::matmul(hidden.to(at::kFloat), head.t());
    EXPECT_EQ(logits.equal(logits.to(at::kBFloat16).to(at::kFloat)), !single) << "in bf16 they are rounded";
    EXPECT_EQ((logits - exact).abs().max().item<float>() <= 1e-5F * exact.abs().max().item<float>(), single);
  }
}

/// Row `number` of the step.
data::Batch one_row(std::int64_t number) {
  data::Batch batch{.rows = 1, .length = 7};
  for (std::int64_t position = 0; position < batch.length; ++position) {
    batch.input_ids.push_back((number * 17 + position * 5) % 61);
    batch.labels.push_back((number * 29 + position * 11) % 61);
    batch.position_ids.push_back(position);
  }
  batch.lengths = {batch.length};
  batch.numbers = {number};
  return batch;
}

/// The gradient of a head in fp32 travels as it is, whatever those of the bf16 parameters travel in. (Of one microbatch theirs are bf16 numbers.)
RANKS_TEST(Precision, TheGradientsOfAHeadInSinglePrecision, 2) {
  Json config = small_expert_model("qwen3_moe", 2);
  config["tie_word_embeddings"] = false;
  const model::ModelSpec spec = model::model_spec_from_json(config, "small");
  const auto gradients = [&](DType wire) {
    config::Distributed distributed{.sizes = {.ep_size = 2}};
    distributed.moe.emplace() = {.lm_head_precision = DType::F32, .mp_policy = config::MixedPrecisionPolicy{.param_dtype = {}, .reduce_dtype = wire}};
    const auto setup = parallel::DistributedSetup::build(backend(), distributed);
    auto model = parallel::CausalLM::from_config(spec, 7, setup, {.dtype = DType::BF16, .trainable = true}, 2);
    train::accumulate_gradients(model, std::vector{one_row(backend().rank()), one_row(2 + backend().rank())}, 0);
    return parallel::whole_gradients(model);
  };
  const auto half = gradients(DType::BF16), single = gradients(DType::F32);
  EXPECT_TRUE(half.at("lm_head.weight").equal(single.at("lm_head.weight")));
  const char* const query = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_FALSE(half.at(query).equal(single.at(query))) << "else the dtype of the wire shows nowhere";
}

}  // namespace
}  // namespace tessera::test
