#include "tessera/model/families/experts_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::model {
namespace {

/// Says that a number does not go with that of the experts or with `others`, unless one of these is wrong itself.
void contradicts_experts(ConfigReader& config, const std::string& key, const std::string& what, std::vector<std::string> others = {}) {
  others.insert(others.end(), {"num_experts", "num_local_experts", "n_routed_experts"});
  config.contradicts(key, others, what);
}

}  // namespace

std::int64_t read_num_experts(ConfigReader& config, const std::vector<std::string>& keys) {
  std::int64_t count = 0;
  for (const std::string& key : keys) {
    const auto found = config.optional_size(key);
    if (count == 0) count = found.value_or(0);
  }
  return count != 0 ? count : config.size(keys.front());
}

void read_experts_per_token(ConfigReader& config, std::int64_t fallback, ExpertsSpec& experts) {
  experts.experts_per_token = config.size("num_experts_per_tok", fallback);
  if (experts.experts_per_token <= experts.num_experts) return;
  contradicts_experts(config, "num_experts_per_tok",
                      fmt::format("({}) is more than there are experts ({})", experts.experts_per_token, experts.num_experts));
  experts.experts_per_token = 1;
}

void read_expert_groups(ConfigReader& config, std::int64_t num_groups, std::int64_t groups_per_token, ExpertsSpec& experts) {
  experts.num_groups = config.size("n_group", num_groups);
  experts.groups_per_token = config.size("topk_group", groups_per_token);
  const std::int64_t members = experts.num_experts / experts.num_groups;
  if (experts.num_experts % experts.num_groups != 0 || (experts.num_groups > 1 && members < 2)) {
    contradicts_experts(config, "n_group",
                        fmt::format("({}) does not cut {} experts into equal groups of two or more", experts.num_groups, experts.num_experts));
  }
  if (experts.groups_per_token > experts.num_groups || experts.groups_per_token * members < experts.experts_per_token) {
    contradicts_experts(config, "topk_group",
                        fmt::format("({}) of {} groups of {} experts do not hold {} experts", experts.groups_per_token, experts.num_groups, members,
                                    experts.experts_per_token),
                        {"n_group", "num_experts_per_tok"});
  }
}

void read_router_extras(ConfigReader& config) {
  config.find("router_aux_loss_coef");
  if (config.boolean("output_router_logits", false))
    config.not_supported("output_router_logits", "losses of the router are asked for in the recipe", "set it to false");
  if (config.number("router_jitter_noise", 0.0) != 0.0) config.not_supported("router_jitter_noise", "routers see tokens without noise");
}

void use_experts(ModelSpec& spec, const ExpertsSpec& experts, const std::function<bool(std::int64_t layer)>& has_experts) {
  spec.experts = experts;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) spec.layers[layer].experts = has_experts(static_cast<std::int64_t>(layer));
  if (std::ranges::none_of(spec.layers, &LayerSpec::experts)) spec.experts.reset();
}

void read_sparse_layers(ConfigReader& config, const ExpertsSpec& experts, ModelSpec& spec) {
  const std::int64_t step = config.size("decoder_sparse_step", 1);
  std::vector<std::int64_t> dense;
  if (const Json* list = config.find("mlp_only_layers")) {
    if (!list->is_array() || !std::ranges::all_of(*list, [](const Json& entry) { return entry.is_number_integer(); })) {
      config.wrong("mlp_only_layers", "is not a list of layer numbers");
    } else {
      dense = list->get<std::vector<std::int64_t>>();
    }
  }
  use_experts(spec, experts, [&](std::int64_t layer) { return (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end(); });
}

void read_deepseek_experts(ConfigReader& config, const DeepseekDefaults& defaults, ModelSpec& spec) {
  ExpertsSpec experts;
  experts.num_experts = read_num_experts(config, {"n_routed_experts", "num_local_experts"});
  experts.intermediate_size = config.size("moe_intermediate_size");
  const Json* shared = config.find("n_shared_experts");
  const bool none = shared != nullptr && shared->is_number_integer() && shared->get<std::int64_t>() == 0;
  experts.shared_intermediate_size = none ? 0 : experts.intermediate_size * config.size("n_shared_experts", 1);
  experts.scoring = RouterScoring::Sigmoid;
  if (config.text("scoring_func", "sigmoid") != "sigmoid") config.not_supported("scoring_func", spec.model_type + " routes by sigmoid");
  if (config.text("topk_method", "noaux_tc") != "noaux_tc") config.not_supported("topk_method", spec.model_type + " routes by noaux_tc");
  if (config.size("moe_layer_freq", 1) != 1) config.not_supported("moe_layer_freq", "every layer after the dense ones has experts");
  experts.correction_bias = true;
  experts.normalize = config.boolean("norm_topk_prob", true);
  experts.scale = config.positive_number("routed_scaling_factor", defaults.scale);
  read_experts_per_token(config, defaults.experts_per_token, experts);
  read_expert_groups(config, defaults.num_groups, defaults.groups_per_token, experts);
  read_router_extras(config);
  config.find("num_nextn_predict_layers");  // layers that predict further tokens: transformers leaves them out, see load.h
  config.find("num_mtp_layers");
  config.find("aux_loss_alpha");
  config.find("seq_aux");
  const Json* first = config.find("first_k_dense_replace");
  const std::int64_t dense = first != nullptr && first->is_number_integer() ? first->get<std::int64_t>() : defaults.first_dense_layers;
  use_experts(spec, experts, [&](std::int64_t layer) { return layer >= dense; });
}

void name_experts(TensorNames& names) {
  const std::string mlp = "model.layers.{}.mlp.";
  names.router = mlp + "gate";
  names.expert_gate = mlp + "experts.{}.gate_proj";
  names.expert_up = mlp + "experts.{}.up_proj";
  names.expert_down = mlp + "experts.{}.down_proj";
}

void name_shared_expert(TensorNames& names, const std::string& module) {
  const std::string shared = "model.layers.{}.mlp." + module + ".";
  names.shared_gate = shared + "gate_proj";
  names.shared_up = shared + "up_proj";
  names.shared_down = shared + "down_proj";
}

}  // namespace tessera::model
