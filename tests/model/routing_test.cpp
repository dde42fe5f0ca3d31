// What a training run asks of routing beyond the model: auxiliary losses, capacity, balanced choices, saved routing.
#include "tessera/model/routing.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "model/rows.h"
#include "support/support.h"
#include "tessera/model/config.h"

namespace tessera::model::test {
namespace {

using testing::Each;

CausalLM load_routed(const std::string& name, const RoutingOptions& routing, DType dtype = DType::F64,
                     ActivationCheckpointing checkpointing = ActivationCheckpointing::None) {
  const std::filesystem::path directory = tessera::test::test_data("goldens/" + name);
  return CausalLM::from_pretrained(directory, read_model_spec(directory),
                                   {.dtype = dtype, .trainable = true, .decoder = {.activation_checkpointing = checkpointing, .routing = routing}});
}

/// Rows of the goldens' vocabulary (64).
Row small_document(std::int64_t length, unsigned seed) {
  Row row = document(length, seed);
  for (std::int64_t& id : row.ids) id %= 64;
  for (std::int64_t& label : row.labels)
    if (label >= 0) label %= 64;
  return row;
}
Batch padded_batch() { return make_batch({small_document(13, 1), small_document(5, 2)}); }

struct Observed {
  Pass pass;
  RoutingRecord record;
};
Observed observe(CausalLM& model, const Batch& batch, double gradient_scale = 0.0) {
  Observed observed{{}, {.gradient_scale = gradient_scale, .layers = std::vector<LayerRouting>(model.decoder->spec().layers.size())}};
  model.decoder->set_routing_record(&observed.record);
  observed.pass = run(model, {batch});
  model.decoder->set_routing_record(nullptr);
  return observed;
}

/// What the gradients of a pass belong to: rows.h scales the loss by 0.01.
double objective(const Observed& observed, const RoutingOptions& options, double gradient_scale) {
  double sum = 0.01 * observed.pass.loss;
  for (const LayerRouting& layer : observed.record.layers)
    sum += gradient_scale * (options.balance_loss * layer.balance_loss + options.z_loss * layer.z_loss);
  return sum;
}

TEST(Routing, AuxiliaryLossesReachEveryWeightBeforeThem) {
  constexpr double kScale = 0.05, kStep = 1e-6;
  for (const BalanceScope scope : {BalanceScope::Sequence, BalanceScope::Microbatch}) {
    const RoutingOptions options{.balance_loss = 0.7, .balance_scope = scope, .z_loss = 0.3, .capacity_factor = {}};
    CausalLM model = load_routed("mixtral", options);
    const Observed at_rest = observe(model, padded_batch(), kScale);
    for (const char* const name : {"layers.1.router.weight", "layers.0.router.weight", "layers.0.query_key_value.weight"}) {
      double* const weight = model.store->parameter(name).weight.data_ptr<double>() + 5;
      const double before = *weight;
      *weight = before + kStep;
      const double above = objective(observe(model, padded_batch(), kScale), options, kScale);
      *weight = before - kStep;
      const double below = objective(observe(model, padded_batch(), kScale), options, kScale);
      *weight = before;
      const double gradient = at_rest.pass.gradients[model.store->index_of(name)].data_ptr<double>()[5];
      EXPECT_NEAR((above - below) / (2 * kStep), gradient, 1e-7 + 1e-5 * std::abs(gradient)) << name;
    }
    EXPECT_NE(difference(model, at_rest.pass, observe(model, padded_batch()).pass, 1e-3), "") << "without a scale they have no gradient";
  }
}

TEST(Routing, LoadsCountTheChoicesOfRealTokens) {
  CausalLM model = load_routed("mixtral", {});
  for (const LayerRouting& layer : observe(model, padded_batch()).record.layers)
    EXPECT_EQ(std::accumulate(layer.loads.begin(), layer.loads.end(), std::int64_t{0}), 18 * 2) << "18 tokens of two experts each";
}

TEST(Routing, WhatExceedsTheCapacityIsDroppedAndCounted) {
  CausalLM unlimited = load_routed("mixtral", {}), roomy = load_routed("mixtral", {.capacity_factor = 4.0}),
           narrow = load_routed("mixtral", {.capacity_factor = 0.5});
  const Observed all = observe(unlimited, padded_batch()), most = observe(roomy, padded_batch()), few = observe(narrow, padded_batch());
  EXPECT_EQ(difference(unlimited, most.pass, all.pass, 1e-12), "") << "four times the even share holds everything";
  EXPECT_EQ(most.record.layers[0].num_dropped, 0);
  std::int64_t exceeding = 0;
  for (const std::int64_t load : few.record.layers[0].loads) exceeding += std::max<std::int64_t>(0, load - 5);  // ceil(0.5 · 18 · 2 / 4)
  EXPECT_GT(exceeding, 0);
  EXPECT_EQ(few.record.layers[0].num_dropped, exceeding);
  EXPECT_NE(difference(unlimited, few.pass, all.pass, 1e-3), "");
}

TEST(Routing, FakeBalancedChoicesLoadAllAlike) {
  CausalLM model = load_routed("mixtral", {.capacity_factor = {}, .fake_balanced = true});
  const Batch batch = make_batch({small_document(12, 1), small_document(12, 2)});
  for (const LayerRouting& layer : observe(model, batch).record.layers) EXPECT_THAT(layer.loads, Each(24 * 2 / 4));
}

TEST(Routing, SavedRoutingChangesNoBit) {
  for (const char* const name : {"mixtral", "deepseek_v3_yarn"}) {
    CausalLM plain = load_routed(name, {}, DType::F32);
    CausalLM again = load_routed(name, {.capacity_factor = {}, .save_routing = true}, DType::F32, ActivationCheckpointing::Full);
    EXPECT_TRUE(same_bits(observe(plain, padded_batch()).pass, observe(again, padded_batch()).pass)) << name;
  }
}

/// The gradients of one pass between whose two directions the correction biases, which only choose, come to prefer the last experts.
std::vector<at::Tensor> gradients_with_changing_choices(CausalLM& model) {
  const Batch batch = padded_batch();
  model.store->start_gradients();
  ops::Tape tape;
  model.decoder->loss(tape, model.decoder->hidden(tape, batch.inputs).states, batch.labels_BT.reshape({-1}), 0.01);
  std::vector<at::Tensor> gradients;
  for (std::size_t index = 0; index < model.store->table().parameters.size(); ++index) {
    ops::Parameter& parameter = model.store->parameter(index);
    if (parameter.name.ends_with("correction_bias")) parameter.weight.copy_(at::arange(parameter.weight.numel()).mul(10));
  }
  tape.backward();
  model.store->finish_gradients();
  for (std::size_t index = 0; index < model.store->table().parameters.size(); ++index)
    if (const at::Tensor& gradient = model.store->parameter(index).gradient; gradient.defined()) gradients.push_back(gradient.clone());
  return gradients;
}

TEST(Routing, SavedRoutingOutlivesWhatWouldBeChosenNow) {
  for (const char* const name : {"glm4_moe", "deepseek_v3_yarn"}) {
    const auto gradients = [&](bool save, ActivationCheckpointing checkpointing) {
      CausalLM model = load_routed(name, {.capacity_factor = {}, .save_routing = save}, DType::F32, checkpointing);
      return gradients_with_changing_choices(model);
    };
    const std::vector<at::Tensor> once = gradients(false, ActivationCheckpointing::None), saved = gradients(true, ActivationCheckpointing::Full),
                                  chosen_again = gradients(false, ActivationCheckpointing::Full);
    EXPECT_TRUE(std::ranges::equal(saved, once, [](const auto& a, const auto& b) { return at::equal(a, b); })) << name;
    EXPECT_FALSE(std::ranges::equal(chosen_again, once, [](const auto& a, const auto& b) { return at::equal(a, b); })) << name;
  }
}

}  // namespace
}  // namespace tessera::model::test
