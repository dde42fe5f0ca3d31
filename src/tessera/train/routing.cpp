#include "tessera/train/routing.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"

namespace tessera::train {
namespace {

using Loads = std::vector<std::int64_t>;

/// The part of a buffer that every rank keeps up to date by itself: all of it where whole weights are kept, else what this rank holds.
std::pair<at::Tensor, model::Extent> kept_weights(const model::ParameterStore& store, const model::FlatBuffer& buffer) {
  if (store.placement(buffer).whole_weights) return {buffer.compute, {0, buffer.num_elements()}};
  return {buffer.master, buffer.held};
}

/// speed · sign(mean load − load), in the biases' dtype.
at::Tensor bias_change(const Loads& loads, double speed, const at::TensorOptions& options) {
  const std::int64_t total = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  at::Tensor change = at::empty({std::ssize(loads)}, at::kDouble);
  for (std::int64_t expert = 0; expert < std::ssize(loads); ++expert) {
    const std::int64_t above_mean = loads[static_cast<std::size_t>(expert)] * std::ssize(loads) - total;
    change.data_ptr<double>()[expert] = above_mean == 0 ? 0.0 : above_mean > 0 ? -speed : speed;
  }
  return change.to(options);
}

template <class Function>
void for_each_expert_layer(ExpertTraining& experts, const model::ModelSpec& spec, const Function& fn) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer)
    if (spec.layers[layer].experts) fn(experts.layers[layer]);
}

}  // namespace

model::RoutingOptions routing_options(const config::Recipe& recipe) {
  const config::MoeOverrides& asked = recipe.model.moe_overrides;
  const bool expert_parallel = recipe.distributed.sizes.ep_size > 1;
  return {.balance_loss = asked.aux_loss_coeff.value_or(0.0),
          .balance_scope = asked.aux_loss_by_microbatch ? model::BalanceScope::Microbatch : model::BalanceScope::Sequence,
          .z_loss = asked.z_loss_coeff,
          .capacity_factor = asked.capacity_factor,
          .fake_balanced = recipe.model.backend.fake_balanced_gate,
          .save_routing = expert_parallel && recipe.distributed.moe.value_or(config::MoeParallel{}).ignore_router_for_ac};
}

void refuse_expert_options(const config::LoadedRecipe& loaded, const model::ModelSpec& spec, std::vector<Problem>& problems) {
  const config::MoeOverrides& asked = loaded.recipe.model.moe_overrides;
  const auto refuse = [&](const std::string& key, const std::string& rule, const std::string& fix) {
    problems.push_back({config::where(loaded.tree, key), fmt::format("{} does not go with {}", key, spec.model_type), rule, fix});
  };
  if (!spec.experts) {
    const config::Node* model = loaded.tree.find("model");
    if (model != nullptr && model->find("moe_overrides") != nullptr) refuse("model.moe_overrides", "the model has no experts", "leave it out");
    return;
  }
  if (asked.gate_bias_update_factor == 0.0) return;
  const std::string key = "model.moe_overrides.gate_bias_update_factor";
  if (!spec.experts->correction_bias) refuse(key, "its router has no correction bias", "use aux_loss_coeff");
  if (!asked.train_gate) refuse(key, "a router that is not trained keeps its correction bias", "leave out train_gate: false");
}

std::unique_ptr<ExpertTraining> make_expert_training(parallel::CausalLM& model, double bias_update) {
  auto experts = std::make_unique<ExpertTraining>();
  experts->bias_update = bias_update;
  experts->record.layers.resize(model.model.spec.layers.size());
  model.model.decoder->set_routing_record(&experts->record);
  return experts;
}

std::unique_ptr<ExpertTraining> make_expert_training(parallel::CausalLM& model, const config::Recipe& recipe) {
  if (!model.model.spec.experts) {
    if (recipe.moe_metrics.enabled) log::note("moe_metrics: ignored, the model has no experts");
    return nullptr;
  }
  const model::RoutingOptions& options = model.model.decoder->options().routing;
  const double bias_update = recipe.model.moe_overrides.gate_bias_update_factor;
  const bool counts =
      options.balance_loss > 0.0 || options.z_loss > 0.0 || options.capacity_factor || bias_update > 0.0 || recipe.moe_metrics.enabled;
  return counts ? make_expert_training(model, bias_update) : nullptr;
}

void begin_step(ExpertTraining& experts, std::int64_t num_tokens) {
  experts.record.clear();
  experts.record.gradient_scale = num_tokens > 0 ? 1.0 / static_cast<double>(num_tokens) : 0.0;
  experts.num_tokens = num_tokens;
}

void sum_over_ranks(ExpertTraining& experts, const parallel::CausalLM& model) {
  experts.layers = experts.record.layers;
  std::vector<double> values;
  for_each_expert_layer(experts, model.model.spec, [&](model::LayerRouting& layer) {
    // A rank without tokens, and one whose pipeline stages lack the layer, have counted nothing.
    layer.loads.resize(static_cast<std::size_t>(model.model.spec.experts->num_experts));
    values.insert(values.end(), layer.loads.begin(), layer.loads.end());
    values.insert(values.end(), {static_cast<double>(layer.num_dropped), layer.balance_loss, layer.z_loss});
  });
  values = comm::sum(model.group(mesh::kWorld), std::move(values));
  auto value = values.begin();
  for_each_expert_layer(experts, model.model.spec, [&](model::LayerRouting& layer) {
    for (std::int64_t& load : layer.loads) load = static_cast<std::int64_t>(*value++);
    layer.num_dropped = static_cast<std::int64_t>(*value++);
    layer.balance_loss = *value++;
    layer.z_loss = *value++;
  });
}

void update_correction_biases(model::ParameterStore& store, std::span<const model::LayerRouting> layers, double speed) {
  for (model::FlatBuffer& buffer : store.buffers()) {
    if (!buffer.exact) continue;
    const auto [weights, kept] = kept_weights(store, buffer);
    for (const model::FlatRange& range : buffer.ranges) {
      const model::ParameterSpec& parameter = store.table().parameters[range.parameter];
      if (!parameter.buffer) continue;
      TESSERA_ASSERT(parameter.role == model::Role::Router, "the only buffers are correction biases");
      const model::Extent part = model::intersection({range.begin, range.begin + range.size}, kept);
      if (part.size() == 0) continue;
      const at::Tensor change = bias_change(layers[static_cast<std::size_t>(parameter.layer)].loads, speed, weights.options());
      weights.narrow(0, part.begin - kept.begin, part.size()).add_(change.narrow(0, part.begin - range.begin, part.size()));
    }
  }
}

}  // namespace tessera::train
