#include "tessera/model/parameter_table.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "support/support.h"
#include "tessera/formats/safetensors.h"
#include "tessera/model/config.h"

namespace tessera::model {
namespace {

using testing::ElementsAre;

const std::vector<std::string> kCommitted = {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3", "phi3_longrope"};

void expect_names_the_tensors_of(const std::filesystem::path& directory) {
  SCOPED_TRACE(directory.string());
  const ParameterTable table = parameter_table(read_model_spec(directory));
  const formats::SafetensorsFile file(directory / "model.safetensors");
  std::set<std::string> named;
  for (const ParameterSpec& parameter : table.parameters) {
    std::int64_t rows = 0;
    for (const Piece& piece : parameter.pieces) {
      EXPECT_EQ(piece.row, rows);
      rows += piece.num_rows();
      EXPECT_TRUE(named.insert(piece.tensor).second) << piece.tensor;
      const formats::TensorInfo* info = file.find(piece.tensor);
      ASSERT_NE(info, nullptr) << piece.tensor;
      EXPECT_EQ(info->shape, piece.tensor_shape) << piece.tensor;
    }
    EXPECT_EQ(rows, parameter.shape[0]) << parameter.name;
  }
  EXPECT_EQ(named.size(), file.tensors().size());
}

TEST(ParameterTable, NamesEveryTensorOfTheCommittedGoldens) {
  for (const std::string& name : kCommitted) expect_names_the_tensors_of(test::test_data("goldens/" + name));
}

TEST(ParameterTable, NamesEveryTensorOfTheDenseGoldens) {
  TESSERA_SKIP_WITHOUT(test::shared_data("goldens"));
  for (const std::string name :
       {"llama", "llama_yarn_bias", "llama_deep_kv2", "qwen3_deep_kv1", "mistral_sliding", "qwen2", "olmo2", "gemma3", "granite"}) {
    expect_names_the_tensors_of(test::shared_data("goldens/" + name));
  }
}

TEST(ParameterTable, FusesProjectionsAndCountsUnits) {
  const ModelSpec spec = read_model_spec(test::test_data("goldens/qwen3"));
  const ParameterTable table = parameter_table(spec);
  const ParameterSpec& fused = table.find("layers.2.query_key_value.weight");
  EXPECT_THAT(fused.shape, ElementsAre(256, 64));
  EXPECT_EQ(fused.pieces.size(), 3u);
  EXPECT_EQ(fused.pieces[1].tensor, "model.layers.2.self_attn.k_proj.weight");
  EXPECT_EQ(fused.pieces[2].row, 192);
  EXPECT_EQ(fused.layer, 2);
  EXPECT_EQ(fused.unit, 3);
  EXPECT_EQ(table.num_units, 6);
  EXPECT_THAT(table.find("layers.0.gate_up.weight").shape, ElementsAre(192, 64));
  EXPECT_EQ(table.find("head.weight").unit, 5);
  EXPECT_EQ(table.find("embedding.weight").unit, 0);
}

TEST(ParameterTable, TransposesGpt2AndScalesItsResidualProjections) {
  const ParameterTable table = parameter_table(read_model_spec(test::test_data("goldens/gpt2")));
  const ParameterSpec& up = table.find("layers.1.up.weight");
  EXPECT_THAT(up.shape, ElementsAre(256, 64));
  EXPECT_TRUE(up.pieces[0].transposed);
  EXPECT_THAT(up.pieces[0].tensor_shape, ElementsAre(64, 256));
  EXPECT_FALSE(table.find("embedding.weight").pieces[0].transposed);
  EXPECT_DOUBLE_EQ(table.find("layers.1.down.weight").standard_deviation, 0.02 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(up.standard_deviation, 0.02);
  EXPECT_EQ(table.find("layers.1.up.bias").initialization, Initialization::Zeros);
  EXPECT_TRUE(table.tied_head);
  EXPECT_EQ(table.tied_head_tensor, "lm_head.weight");
}

TEST(ParameterTable, GemmaNormsStartAtZeroBecauseOneIsAdded) {
  const ParameterTable table = parameter_table(read_model_spec(test::test_data("goldens/gemma2")));
  EXPECT_EQ(table.find("layers.0.attention_post_norm.weight").initialization, Initialization::Zeros);
  EXPECT_EQ(parameter_table(read_model_spec(test::test_data("goldens/qwen3"))).find("final_norm.weight").initialization, Initialization::Ones);
}

}  // namespace
}  // namespace tessera::model
