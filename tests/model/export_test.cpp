#include "tessera/model/export.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "model/checkpoint_files.h"
#include "model/goldens.h"
#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/model/load.h"

namespace tessera::model {
namespace {

TEST(CheckpointView, WritesBackWhatWasLoadedByteForByte) {
  for (const std::string name : {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3", "phi3_longrope"}) {
    ParameterStore store(parameter_table(read_model_spec(test::golden(name))), {});
    load_weights(store, *formats::open_huggingface_source(test::golden(name)));
    test::TemporaryDirectory directory;
    const CheckpointView view(store);
    const auto operations = posix_file_operations();
    formats::write_shards(*operations, directory.path(), formats::plan_shards(view.tensors(DType::F32)), view.producer());
    EXPECT_EQ(test::read_file(directory / "model.safetensors"), test::read_file(test::golden(name) / "model.safetensors")) << name;
  }
}

TEST(CheckpointView, RoundsToTheDtypeAskedFor) {
  ParameterStore store(parameter_table(read_model_spec(test::golden("gpt2"))), {});
  load_weights(store, *formats::open_huggingface_source(test::golden("gpt2")));
  test::TemporaryDirectory directory;
  const CheckpointView view(store);
  const auto operations = posix_file_operations();
  formats::write_shards(*operations, directory.path(), formats::plan_shards(view.tensors(DType::BF16), 100000), view.producer());
  ParameterStore again(store.table(), {});
  load_weights(again, *formats::open_huggingface_source(directory.path()));
  for (std::size_t i = 0; i < store.table().parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(again.master(i), store.master(i).to(at::kBFloat16).to(at::kFloat)));
  }
}

TEST(CheckpointView, GradientsUnderCheckpointNames) {
  ParameterStore store(parameter_table(read_model_spec(test::golden("gpt2"))),
                       {.compute_dtype = DType::F32, .trainable = true, .frozen = [](const ParameterSpec& p) { return p.role == Role::Norm; }});
  const CheckpointView view(store);
  store.parameter("layers.1.query_key_value.weight").gradient[5][3].fill_(2.0);
  EXPECT_EQ(view.gradient("transformer.h.1.attn.c_attn.weight")[3][5].item<double>(), 2.0);
  EXPECT_FALSE(view.gradient("transformer.ln_f.weight").defined());
  EXPECT_FALSE(view.contains("lm_head.weight"));
}

}  // namespace
}  // namespace tessera::model
