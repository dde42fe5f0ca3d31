#include "tessera/model/parameter_store.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/model/initialize.h"

namespace tessera::model {
namespace {

ParameterTable small_table() { return parameter_table(read_model_spec(test::test_data("goldens/llama_tied_llama3_rope"))); }

std::uintptr_t address(const at::Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()); }

TEST(ParameterStore, BuffersAreAlignedAndCoverEveryParameterOnce) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    ParameterStore store(small_table(), {.compute_dtype = dtype, .trainable = true, .frozen = {}});
    std::size_t parameters = 0;
    for (const FlatBuffer& buffer : store.buffers()) {
      EXPECT_EQ(buffer.master.is_same(buffer.compute), dtype != DType::BF16);
      for (const FlatRange& range : buffer.ranges) {
        ops::Parameter& parameter = store.parameter(range.parameter);
        EXPECT_EQ(address(parameter.weight) % 64, 0u);
        EXPECT_EQ(address(parameter.gradient) % 64, 0u);
        EXPECT_EQ(parameter.weight.sizes(), at::IntArrayRef(store.table().parameters[range.parameter].shape));
        EXPECT_EQ(store.table().parameters[range.parameter].unit, buffer.unit);
        ++parameters;
      }
    }
    EXPECT_EQ(parameters, store.table().parameters.size());
  }
}

TEST(ParameterStore, InFp32TheComputeViewIsTheMaster) {
  ParameterStore store(small_table(), {.compute_dtype = DType::F32, .trainable = true, .frozen = {}});
  store.master(3).fill_(2.5);
  EXPECT_EQ(store.parameter(3).weight.mean().item<double>(), 2.5);
  EXPECT_EQ(address(store.master(3)), address(store.parameter(3).weight));
}

TEST(ParameterStore, InBf16TheComputeViewIsRoundedFromTheMaster) {
  ParameterStore store(small_table(), {.compute_dtype = DType::BF16, .trainable = true, .frozen = {}});
  store.master(2).fill_(1.0 + 1.0 / 512);
  EXPECT_EQ(store.parameter(2).weight.max().item<double>(), 0.0);
  store.refresh_compute();
  EXPECT_EQ(store.parameter(2).weight.max().item<double>(), 1.0);
  EXPECT_EQ(store.parameter(2).gradient.scalar_type(), at::kFloat);
}

TEST(ParameterStore, UntrainedStoresKeepOnlyTheComputeWeights) {
  ParameterStore store(small_table(), {.compute_dtype = DType::BF16, .trainable = false, .frozen = {}});
  for (const FlatBuffer& buffer : store.buffers()) {
    EXPECT_FALSE(buffer.master.defined());
    EXPECT_FALSE(buffer.gradient.defined());
  }
  EXPECT_EQ(address(store.master(1)), address(store.parameter(1).weight));
  EXPECT_FALSE(store.parameter(1).trainable);
}

TEST(ParameterStore, FrozenParametersLieApart) {
  ParameterStore store(small_table(), {.compute_dtype = DType::BF16, .trainable = true, .frozen = [](const ParameterSpec& parameter) {
                                         return parameter.role == Role::Norm;
                                       }});
  EXPECT_FALSE(store.parameter("layers.0.attention_norm.weight").trainable);
  EXPECT_TRUE(store.parameter("layers.0.down.weight").trainable);
  for (const FlatBuffer& buffer : store.buffers()) {
    for (const auto& range : buffer.ranges) EXPECT_EQ(store.table().parameters[range.parameter].role != Role::Norm, buffer.trainable);
  }
}

TEST(ParameterStore, GradientsOfUnusedParametersBecomeZero) {
  ParameterStore store(small_table(), {});
  ops::Parameter& used = store.parameter("embedding.weight");
  ops::Parameter& unused = store.parameter("final_norm.weight");
  unused.gradient.fill_(7.0);
  store.start_gradients();
  ops::accumulate_gradient(used, at::full(used.weight.sizes(), 3.0));
  store.finish_gradients();
  EXPECT_EQ(used.gradient.min().item<double>(), 3.0);
  EXPECT_EQ(unused.gradient.abs().max().item<double>(), 0.0);
}

TEST(ParameterStore, CheckpointViewTurnsTransposedPiecesRound) {
  ParameterStore store(parameter_table(read_model_spec(test::test_data("goldens/gpt2"))), {});
  const std::size_t index = store.index_of("layers.0.up.weight");
  const at::Tensor view = checkpoint_view(store.master(index), store.table().parameters[index].pieces[0]);
  EXPECT_EQ(view.size(0), 64);
  EXPECT_EQ(view.size(1), 256);
  view[3][5].fill_(9.0);
  EXPECT_EQ(store.parameter(index).weight[5][3].item<double>(), 9.0);
}

TEST(ParameterStore, SomeMatricesOfAnUntrainedFp32StoreMayStayInBf16) {
  ParameterStore store(small_table(), {.compute_dtype = DType::F32, .trainable = false, .frozen = {}, .kept_in_bfloat16 = {"layers.0.down.weight"}});
  for (std::size_t index = 0; index < store.table().parameters.size(); ++index) {
    const ops::Parameter& parameter = store.parameter(index);
    const bool kept = parameter.name == "layers.0.down.weight";
    EXPECT_EQ(parameter.widened, kept) << parameter.name;
    EXPECT_EQ(parameter.weight.scalar_type(), kept ? at::kBFloat16 : at::kFloat) << parameter.name;
    EXPECT_EQ(parameter.compute_type(), at::kFloat) << parameter.name;
  }
}

}  // namespace
}  // namespace tessera::model
