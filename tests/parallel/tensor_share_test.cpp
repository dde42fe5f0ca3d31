#include "tessera/parallel/tensor/share.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/model/config.h"
#include "tessera/model/placement.h"

namespace tessera::parallel {
namespace {

using model::ModelSpec;
using model::ParameterSpec;

ModelSpec spec_of(const std::string& fields) {
  return model::model_spec_from_json(
      Json::parse(R"({"vocab_size": 61, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 8, )" + fields +
                  "}"),
      "a test");
}

std::vector<ModelSpec> specs() {
  return {spec_of(R"("model_type": "llama", "num_key_value_heads": 2, "head_dim": 6)"),
          spec_of(R"("model_type": "qwen3", "num_key_value_heads": 4, "head_dim": 6, "tie_word_embeddings": true)"),
          spec_of(R"("model_type": "olmo2", "num_key_value_heads": 2)"),
          spec_of(R"("model_type": "phi3", "num_key_value_heads": 8, "pad_token_id": 0)"),
          spec_of(R"("model_type": "gpt2", "n_embd": 32, "n_head": 8, "n_layer": 2, "n_positions": 16)")};
}

/// Adds one to every element of a checkpoint tensor that a box covers.
void cover(std::map<std::string, std::vector<int>>& covered, const model::Piece& piece) {
  std::vector<int>& counts = covered[piece.tensor];
  const bool matrix = piece.tensor_shape.size() == 2;
  const std::int64_t columns = matrix ? piece.tensor_shape[1] : 1;
  counts.resize(static_cast<std::size_t>(piece.tensor_shape[0] * columns));
  for (std::int64_t row = 0; row < piece.size[0]; ++row)
    for (std::int64_t column = 0; column < (matrix ? piece.size[1] : 1); ++column)
      ++counts[static_cast<std::size_t>((piece.offset[0] + row) * columns + (matrix ? piece.offset[1] : 0) + column)];
}

std::vector<model::FlatRange> ranges_of(const model::ParameterTable& table) {
  std::vector<model::FlatRange> ranges;
  std::int64_t begin = 0;
  for (std::size_t index = 0; index < table.parameters.size(); ++index) {
    const ParameterSpec& parameter = table.parameters[index];
    ranges.push_back({index, begin, parameter.num_elements(), parameter.num_elements() / parameter.shape[0]});
    begin += parameter.num_elements();
  }
  return ranges;
}

TEST(TensorShare, EveryElementHasOneOwner) {
  for (const ModelSpec& spec : specs()) {
    for (const std::int64_t size : {1, 2, 4, 8}) {
      SCOPED_TRACE(spec.model_type + " over " + std::to_string(size));
      std::map<std::string, std::vector<int>> covered;
      for (std::int64_t rank = 0; rank < size; ++rank) {
        const model::ParameterTable table = tensor_parallel_table(spec, {.size = size, .rank = rank});
        for (const model::FlatRange& range : ranges_of(table))
          for (const model::Extent& own : model::owned_extents(table, {range}, {range.begin, range.begin + range.size}))
            for (const model::PlacedPiece& placed : model::pieces_within(table.parameters[range.parameter], range, own)) cover(covered, placed.piece);
      }
      std::size_t elements = 0;
      for (const auto& [tensor, counts] : covered) {
        EXPECT_EQ(std::ranges::count(counts, 1), std::ssize(counts)) << tensor;
        elements += counts.size();
      }
      EXPECT_EQ(static_cast<std::int64_t>(elements), model::parameter_table(spec).num_elements());
    }
  }
}

TEST(TensorShare, ShapesAreEqualOnAllRanks) {
  for (const ModelSpec& spec : specs()) {
    const model::ParameterTable first = tensor_parallel_table(spec, {.size = 4, .rank = 0}),
                                last = tensor_parallel_table(spec, {.size = 4, .rank = 3});
    for (std::size_t index = 0; index < first.parameters.size(); ++index)
      EXPECT_EQ(first.parameters[index].shape, last.parameters[index].shape) << first.parameters[index].name;
    EXPECT_EQ(first.find("embedding.weight").shape, (std::vector<std::int64_t>{16, 32}));  // 61 tokens, three rows of padding on the last
  }
}

TEST(TensorShare, CutsByHeads) {
  const ModelSpec spec = spec_of(R"("model_type": "phi3", "num_key_value_heads": 4, "pad_token_id": 0)");
  const ParameterSpec parameter = tensor_parallel_table(spec, {.size = 2, .rank = 1}).find("layers.0.query_key_value.weight");
  // Heads of 4: queries are rows 0 to 31, keys 32 to 47, values 48 to 63 of one tensor.
  ASSERT_EQ(parameter.pieces.size(), 3U);
  EXPECT_EQ(parameter.pieces[0].offset[0], 16);
  EXPECT_EQ(parameter.pieces[1].offset[0], 40);
  EXPECT_EQ(parameter.pieces[2].offset[0], 56);
  EXPECT_EQ(parameter.shape, (std::vector<std::int64_t>{32, 32}));
  EXPECT_EQ(tensor_parallel_spec(spec, {.size = 8}).num_key_value_heads, 1);
  EXPECT_EQ(key_value_holders(spec, {.size = 8}), 2);
}

TEST(TensorShare, SaysWhichGradientsAreShares) {
  const ModelSpec spec = specs()[1];
  const auto replicated = [&](const std::string& name, bool sequence_parallel) {
    return tensor_parallel_table(spec, {.size = 8, .rank = 5, .sequence_parallel = sequence_parallel}).find(name).replicated;
  };
  EXPECT_FALSE(replicated("layers.0.attention_norm.weight", false).at(0).partial);
  EXPECT_TRUE(replicated("layers.0.attention_norm.weight", true).at(0).partial);
  EXPECT_TRUE(replicated("layers.0.query_norm.weight", false).at(0).partial);  // a rank sees its own heads
  const auto keys = replicated("layers.0.query_key_value.weight", false);      // one query head, one of four key and value heads
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].row, 6);
  EXPECT_EQ(keys[0].num_rows, 12);
  EXPECT_EQ(keys[0].num_holders, 2);
  EXPECT_EQ(keys[0].holder, 1);
  EXPECT_TRUE(keys[0].partial);
  EXPECT_TRUE(replicated("layers.0.down.weight", true).empty());
}

}  // namespace
}  // namespace tessera::parallel
