#include "tessera/model/causal_lm.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "model/checkpoint_files.h"
#include "model/rows.h"
#include "support/support.h"
#include "tessera/model/config.h"

namespace tessera::model::test {
namespace {

using tessera::test::error_of;
using tessera::test::test_data;

TEST(CausalLM, ComputesInTheCheckpointsTypeUnlessAsked) {
  ModelSpec spec = read_model_spec(test_data("goldens/qwen3"));
  for (const auto& [stored, computed] : {std::pair{DType::F32, DType::F32}, std::pair{DType::BF16, DType::BF16}, std::pair{DType::F16, DType::F32}}) {
    spec.dtype = stored;
    EXPECT_EQ(default_compute_dtype(spec), computed);
    EXPECT_EQ(CausalLM::from_config(spec, 1, {}).store->options().compute_dtype, computed);
  }
  EXPECT_EQ(CausalLM::from_config(spec, 1, {.dtype = DType::BF16}).store->options().compute_dtype, DType::BF16);
}

TEST(CausalLM, RandomWeightsDependOnTheSeedAlone) {
  const ModelSpec spec = read_model_spec(test_data("goldens/qwen3"));
  const CausalLM a = CausalLM::from_config(spec, 1, {}), b = CausalLM::from_config(spec, 1, {.trainable = true}),
                 c = CausalLM::from_config(spec, 2, {});
  const std::size_t embedding = a.store->index_of("embedding.weight");
  EXPECT_TRUE(at::equal(a.store->master(embedding), b.store->master(embedding)));
  EXPECT_FALSE(at::equal(a.store->master(embedding), c.store->master(embedding)));
}

TEST(CausalLM, KeepsGradientsOnlyWhenTrainable) {
  const ModelSpec spec = read_model_spec(test_data("goldens/qwen3"));
  EXPECT_FALSE(CausalLM::from_config(spec, 1, {}).store->parameter(0).trainable);
  EXPECT_TRUE(CausalLM::from_config(spec, 1, {.trainable = true}).store->parameter(0).trainable);
}

// Frozen parameters get no gradient, and the others exactly the one they would get anyway.
TEST(CausalLM, FreezingChangesNoOtherGradient) {
  const std::vector<Batch> batches = {make_batch({document(12, 1), document(7, 2)}), make_batch({document(3, 3)})};
  for (const char* const name : {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3"}) {
    CausalLM whole = CausalLM::from_pretrained(test_data(std::string("goldens/") + name), {.trainable = true});
    const Pass all = run(whole, batches);
    for (const auto& frozen : {ParameterPredicate([](const ParameterSpec& p) { return p.role == Role::Embedding; }),
                               ParameterPredicate([](const ParameterSpec& p) { return p.role == Role::Norm || p.bias; }),
                               ParameterPredicate([](const ParameterSpec& p) { return p.role == Role::GateUp || p.layer < 2; })}) {
      CausalLM model = CausalLM::from_pretrained(test_data(std::string("goldens/") + name), {.trainable = true, .frozen = frozen});
      const Pass pass = run(model, batches);
      EXPECT_EQ(pass.loss, all.loss);
      for (std::size_t index = 0; index < pass.gradients.size(); ++index) {
        const ParameterSpec& parameter = model.store->table().parameters[index];
        EXPECT_EQ(pass.gradients[index].defined(), !frozen(parameter)) << parameter.name;
        if (pass.gradients[index].defined()) {
          EXPECT_TRUE(at::equal(pass.gradients[index], all.gradients[index])) << name << " " << parameter.name;
        }
      }
    }
  }
}

TEST(CausalLM, TakesASpecThatDiffersFromTheDirectorys) {
  const auto directory = test_data("goldens/gemma2");
  ModelSpec spec = read_model_spec(directory);
  spec.final_soft_cap.reset();
  CausalLM plain = CausalLM::from_pretrained(directory, {.trainable = true}),
           changed = CausalLM::from_pretrained(directory, spec, {.trainable = true});
  const std::vector<Batch> batches = {make_batch({document(12, 1)})};
  EXPECT_NE(run(plain, batches).loss, run(changed, batches).loss);
}

TEST(CausalLM, NamesWhatIsMissing) {
  const tessera::test::TemporaryDirectory directory;
  EXPECT_NE(error_of([&] { CausalLM::from_pretrained(directory.path(), {}); }).find("config.json"), std::string::npos);
  std::filesystem::copy(test_data("goldens/qwen3/config.json"), directory / "config.json");
  EXPECT_NE(error_of([&] { CausalLM::from_pretrained(directory.path(), {}); }).find("safetensors"), std::string::npos);
}

std::int64_t weight_bytes(const CausalLM& model) {
  std::int64_t bytes = 0;
  for (const FlatBuffer& buffer : model.store->buffers()) bytes += buffer.compute.numel() * buffer.compute.element_size();
  return bytes;
}

at::Tensor logits(const CausalLM& model, const Batch& batch) {
  ops::Tape tape(ops::Tape::Mode::Inference);
  return model.decoder->logits(model.decoder->hidden(tape, batch.inputs).states.value, batch.inputs.num_rows() * batch.inputs.length());
}

// A checkpoint in bf16, run in fp32: its matrices stay as they are, and nothing else changes. (A trained store widens them.)
TEST(CausalLM, InferenceInFp32KeepsBf16MatricesAndGivesTheFp32Results) {
  for (const char* const name : {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3"}) {
    SCOPED_TRACE(name);
    const tessera::test::TemporaryDirectory directory;
    const auto golden = test_data(std::string("goldens/") + name);
    std::filesystem::copy(golden / "config.json", directory / "config.json");
    tessera::test::write_floats(directory.path(), tessera::test::read_floats(golden), DType::BF16);
    const CausalLM kept = CausalLM::from_pretrained(directory.path(), {.dtype = DType::F32});
    const CausalLM wide = CausalLM::from_pretrained(directory.path(), {.dtype = DType::F32, .trainable = true});
    EXPECT_LT(weight_bytes(kept), weight_bytes(wide) * 6 / 10);
    for (const Batch& batch : {make_batch({document(3, 1)}), make_batch({document(40, 2), document(17, 3)})}) {
      const at::Tensor expected = logits(wide, batch);
      EXPECT_EQ(logits(kept, batch).scalar_type(), at::kFloat);
      EXPECT_LE((logits(kept, batch) - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
    }
  }
}

}  // namespace
}  // namespace tessera::model::test
