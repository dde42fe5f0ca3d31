#include "tessera/model/expert_feed_forward.h"

#include <ATen/ops/arange.h>

#include <cmath>

#include "tessera/ops/activation.h"
#include "tessera/ops/grouped_linear.h"
#include "tessera/ops/kernel_types.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/residual.h"
#include "tessera/ops/router.h"
#include "tessera/ops/router_losses.h"

namespace tessera::model {
namespace {

ops::RouterOptions router_options(const ExpertsSpec& experts) {
  return {.scoring = experts.scoring,
          .num_choices = experts.experts_per_token,
          .normalize = experts.normalize,
          .scale = experts.scale,
          .num_groups = experts.num_groups,
          .groups_per_token = experts.groups_per_token};
}

/// Expert (n · k + j) mod E for choice j of token n.
at::Tensor balanced_choices(std::int64_t num_tokens, const ExpertsSpec& experts, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  return at::arange(num_tokens * experts.experts_per_token, options).remainder(experts.num_experts).view({num_tokens, -1});
}

at::Tensor choose(const at::Tensor& logits_NE, const ExpertsSpec& experts, const ExpertWeights& weights, const RoutingCall& call) {
  if (call.saved_experts != nullptr && call.saved_experts->defined()) return *call.saved_experts;
  const at::Tensor correction = weights.correction_bias == nullptr ? at::Tensor() : weights.correction_bias->weight;
  const at::Tensor chosen = call.options.fake_balanced ? balanced_choices(logits_NE.size(0), experts, logits_NE.device())
                                                       : ops::choose_experts(logits_NE, correction, router_options(experts));
  if (call.saved_experts != nullptr) *call.saved_experts = chosen;
  return chosen;
}

/// The balance loss of this rank's tokens, and its gradient.
double balance_loss(ops::Tape& tape, const ops::Variable& logits_NE, const at::Tensor& chosen_NK, const ExpertsSpec& experts,
                    const RoutingCall& call) {
  const bool by_sequence = call.options.balance_scope == BalanceScope::Sequence;
  const at::Tensor group_N = by_sequence ? call.row_N : call.row_N.clamp_max(0);
  const std::int64_t num_groups = by_sequence ? call.num_rows : 1;
  ops::ExpertLoads loads = ops::expert_loads(logits_NE.value, chosen_NK, group_N, num_groups, experts.scoring);
  const at::Tensor own_tokens_G = loads.tokens_G.clone();
  const SumOverRanks& sum = by_sequence ? call.sum_over_sequence : call.sum_over_microbatch;
  if (sum)
    for (const at::Tensor& part : {loads.choices_GE, loads.scores_GE, loads.tokens_G}) sum(part);
  ops::add_balance_gradient(tape, logits_NE, group_N, loads, experts.experts_per_token, experts.scoring,
                            call.options.balance_loss * call.gradient_scale);
  return (ops::balance_losses(loads, experts.experts_per_token) * own_tokens_G).sum().item<double>();
}

void count_loads(const at::Tensor& chosen_NK, const at::Tensor& row_N, std::vector<std::int64_t>& loads) {
  const at::Tensor chosen = chosen_NK.cpu(), rows = row_N.cpu();
  for (std::int64_t choice = 0; choice < chosen.numel(); ++choice)
    if (rows.data_ptr<std::int64_t>()[choice / chosen.size(1)] >= 0) ++loads[static_cast<std::size_t>(chosen.data_ptr<std::int64_t>()[choice])];
}

void observe(ops::Tape& tape, const ops::Variable& logits_NE, const at::Tensor& chosen_NK, const ExpertsSpec& experts, const RoutingCall& call) {
  if (call.record == nullptr || !tape.recording()) return;
  call.record->loads.resize(static_cast<std::size_t>(experts.num_experts));
  count_loads(chosen_NK, call.row_N, call.record->loads);
  if (call.options.balance_loss != 0.0) call.record->balance_loss += balance_loss(tape, logits_NE, chosen_NK, experts, call);
  if (call.options.z_loss == 0.0) return;
  call.record->z_loss += ops::z_loss(logits_NE.value, call.row_N).item<double>();
  ops::add_z_gradient(tape, logits_NE, call.row_N, call.options.z_loss * call.gradient_scale);
}

/// Choices that fit the experts' capacity.
at::Tensor kept_choices(ops::Tape& tape, const at::Tensor& chosen_NK, const at::Tensor& weights_NK, const ExpertsSpec& experts,
                        const RoutingCall& call) {
  if (!call.options.capacity_factor || !tape.training()) return chosen_NK;
  const auto choices = static_cast<double>(call.row_N.ge(0).sum().item<std::int64_t>() * experts.experts_per_token);
  const auto capacity = static_cast<std::int64_t>(std::ceil(*call.options.capacity_factor * choices / static_cast<double>(experts.num_experts)));
  std::int64_t dropped = 0;
  const at::Tensor kept = ops::limit_capacity(chosen_NK, weights_NK, call.row_N, experts.num_experts, capacity, dropped);
  if (call.record != nullptr && tape.recording()) call.record->num_dropped += dropped;
  return kept;
}

Routing route(ops::Tape& tape, const ops::Variable& tokens_ND, const ExpertsSpec& experts, const ExpertWeights& weights, const RoutingCall& call) {
  const ops::Variable logits = ops::router_logits(tape, tokens_ND, *weights.router, weights.router_bias);
  const at::Tensor chosen = choose(logits.value, experts, weights, call);
  observe(tape, logits, chosen, experts, call);
  const at::ScalarType type = ops::compute_type(tokens_ND.value);
  const ops::Variable chosen_weights = ops::expert_weights(tape, logits, chosen, router_options(experts), type);
  return {kept_choices(tape, chosen, chosen_weights.value, experts, call), chosen_weights};
}

ops::Variable shared_expert(ops::Tape& tape, const ops::Variable& tokens_ND, const ModelSpec& spec, const ExpertWeights& weights) {
  const ops::Variable projected = ops::linear(tape, tokens_ND, *weights.shared_gate_up);
  const ops::Variable active = ops::gated_activation(tape, projected, spec.activation);
  const ops::Variable output = ops::linear(tape, active, *weights.shared_down);
  if (weights.shared_gate == nullptr) return output;
  return ops::sigmoid_gate(tape, output, ops::linear(tape, tokens_ND, *weights.shared_gate));
}

/// What the experts that live here compute.
Experts experts_of(const ModelSpec& spec, const ExpertWeights& weights) {
  return [&spec, &weights](ops::Tape& tape, const ops::Variable& rows_RD, const std::vector<std::int64_t>& rows_per_expert) {
    const ops::Variable projected = ops::grouped_linear(tape, rows_RD, *weights.gate_up, weights.gate_up_bias, rows_per_expert);
    const std::optional<double> limit = spec.experts->limit;
    const ops::Variable active =
        limit ? ops::limited_gated_activation(tape, projected, spec.experts->alpha, *limit) : ops::gated_activation(tape, projected, spec.activation);
    return ops::grouped_linear(tape, active, *weights.down, weights.down_bias, rows_per_expert);
  };
}

}  // namespace

ExpertWeights find_expert_weights(const FindParameter& find) {
  return {.router = find("router.weight"),
          .router_bias = find("router.bias"),
          .correction_bias = find("correction_bias"),
          .gate_up = find("experts.gate_up.weight"),
          .gate_up_bias = find("experts.gate_up.bias"),
          .down = find("experts.down.weight"),
          .down_bias = find("experts.down.bias"),
          .shared_gate_up = find("shared.gate_up.weight"),
          .shared_down = find("shared.down.weight"),
          .shared_gate = find("shared_gate.weight")};
}

ops::Variable expert_feed_forward(ops::Tape& tape, const ops::Variable& tokens_ND, const ModelSpec& spec, const ExpertWeights& weights,
                                  Dispatcher& dispatcher, const RoutingCall& call) {
  const Routing routing = route(tape, tokens_ND, *spec.experts, weights, call);
  ops::Variable shared;
  const auto meanwhile = [&] {
    if (weights.shared_gate_up != nullptr) shared = shared_expert(tape, tokens_ND, spec, weights);
  };
  const ops::Variable routed = dispatcher(tape, tokens_ND, routing, spec.experts->num_experts, experts_of(spec, weights), meanwhile);
  return weights.shared_gate_up == nullptr ? routed : ops::add(tape, routed, shared);
}

}  // namespace tessera::model
