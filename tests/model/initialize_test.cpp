#include "tessera/model/initialize.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/goldens.h"
#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/model/export.h"

namespace tessera::model {
namespace {

/// Elements [first, first + size) of a checkpoint tensor whose values are standard normal: the weights of a parameter that is this part of it.
std::vector<float> normal_values(std::uint64_t seed, const std::string& tensor, std::int64_t first, std::int64_t size) {
  ParameterSpec parameter;
  parameter.name = tensor;
  parameter.shape = {size};
  parameter.standard_deviation = 1.0;
  parameter.pieces = {{.tensor = tensor, .tensor_shape = {first + size}, .offset = {first}, .size = {size}}};
  ParameterTable table;
  table.parameters = {parameter};
  table.num_units = 1;
  ParameterStore store(table, {});
  initialize_weights(store, seed);
  const float* values = store.master(0).data_ptr<float>();
  return {values, values + size};
}

TEST(Initialize, ValuesAreStandardNormal) {
  const std::vector<float> values = normal_values(42, "some.tensor", 0, 400000);
  double sum = 0, square = 0, fourth = 0, neighbour = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    if (i > 0) neighbour += x * values[i - 1];
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 0.006);
  EXPECT_NEAR(square / n, 1.0, 0.01);
  EXPECT_NEAR(fourth / n, 3.0, 0.08);
  EXPECT_NEAR(neighbour / n, 0.0, 0.006);
}

TEST(Initialize, AnElementDependsOnItsIndexNotOnTheRange) {
  const std::vector<float> whole = normal_values(7, "t", 0, 100), part = normal_values(7, "t", 13, 37);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[13 + i]);
}

TEST(Initialize, FusedAndSeparateParametersStartEqual) {
  const ParameterTable fused = test::table_of("qwen3");
  ParameterTable separate = fused;
  separate.parameters.clear();
  for (const ParameterSpec& parameter : fused.parameters) {
    for (const Piece& piece : parameter.pieces) {
      ParameterSpec single = parameter;
      single.name = piece.tensor;
      single.shape[0] = piece.num_rows();
      single.pieces = {piece};
      single.pieces[0].row = 0;
      separate.parameters.push_back(single);
    }
  }
  ParameterStore a(fused, {}), b(separate, {});
  initialize_weights(a, 42);
  initialize_weights(b, 42);
  const CheckpointView in_a(a), in_b(b);
  for (const auto& tensor : in_a.tensors(DType::F32)) EXPECT_TRUE(at::equal(in_a.weight(tensor.name), in_b.weight(tensor.name))) << tensor.name;
}

TEST(Initialize, TransposedTensorsStartAsTheCheckpointWouldHaveThem) {
  ParameterStore store(test::table_of("gpt2"), {});
  initialize_weights(store, 3);
  const CheckpointView view(store);
  const at::Tensor weight = view.weight("transformer.h.1.mlp.c_proj.weight").contiguous();
  const std::vector<float> expected = normal_values(3, "transformer.h.1.mlp.c_proj.weight", 0, weight.numel());
  const auto scale = static_cast<float>(0.02 / std::sqrt(8.0));
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(weight.data_ptr<float>()[i], scale * expected[i]);
  EXPECT_EQ(view.weight("transformer.h.1.ln_1.weight").min().item<double>(), 1.0);
  EXPECT_EQ(view.weight("transformer.h.1.attn.c_attn.bias").abs().max().item<double>(), 0.0);
}

TEST(Initialize, Bf16ModelsStartFromTheSameMasters) {
  ParameterStore exact(test::table_of("qwen3"), {});
  ParameterStore rounded(test::table_of("qwen3"), {.compute_dtype = DType::BF16, .trainable = true, .frozen = {}});
  ParameterStore inference(test::table_of("qwen3"), {.compute_dtype = DType::BF16, .trainable = false, .frozen = {}});
  for (ParameterStore* store : {&exact, &rounded, &inference}) initialize_weights(*store, 5);
  for (std::size_t i = 0; i < exact.table().parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(exact.master(i), rounded.master(i)));
    EXPECT_TRUE(at::equal(exact.master(i).to(at::kBFloat16), rounded.parameter(i).weight));
    EXPECT_TRUE(at::equal(inference.parameter(i).weight, rounded.parameter(i).weight));
  }
}

TEST(Initialize, SeedsDiffer) {
  ParameterStore a(test::table_of("qwen3"), {}), b(test::table_of("qwen3"), {});
  initialize_weights(a, 1);
  initialize_weights(b, 2);
  EXPECT_FALSE(at::equal(a.master(0), b.master(0)));
}

}  // namespace
}  // namespace tessera::model
