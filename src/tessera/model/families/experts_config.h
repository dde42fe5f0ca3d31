#pragma once

#include <functional>
#include <string>

#include "tessera/model/config_reader.h"
#include "tessera/model/spec.h"

/// What families with experts share.
namespace tessera::model {

/// The number of experts under the first of these names that the file has (transformers 4 and 5 differ); required unless there is a fallback.
std::int64_t read_num_experts(ConfigReader& config, const std::vector<std::string>& keys);

/// num_experts_per_tok, checked against the number of experts.
void read_experts_per_token(ConfigReader& config, std::int64_t fallback, ExpertsSpec& experts);

/// n_group and topk_group: groups are equal, hold at least two experts each, and a token's groups hold enough.
void read_expert_groups(ConfigReader& config, std::int64_t num_groups, std::int64_t groups_per_token, ExpertsSpec& experts);

/// Fields about auxiliary losses that a file carries and transformers applies only when asked; noise of the router must be off.
void read_router_extras(ConfigReader& config);

/// The layers that have experts.
void use_experts(ModelSpec& spec, const ExpertsSpec& experts, const std::function<bool(std::int64_t layer)>& has_experts);

/// qwen: every decoder_sparse_step-th layer has experts, but for those in mlp_only_layers.
void read_sparse_layers(ConfigReader& config, const ExpertsSpec& experts, ModelSpec& spec);

/// What deepseek_v3 and glm4_moe share: sigmoid routing in groups with a correction bias, shared experts, dense first layers.
struct DeepseekDefaults {
  std::int64_t num_groups, groups_per_token, experts_per_token, first_dense_layers;
  double scale;
};
void read_deepseek_experts(ConfigReader& config, const DeepseekDefaults& defaults, ModelSpec& spec);

/// Names of experts under "mlp.": router "gate", experts "experts.{}.gate_proj" and so on.
void name_experts(TensorNames& names);
/// Names of the expert that every token sees: "mlp.{module}.gate_proj" and so on.
void name_shared_expert(TensorNames& names, const std::string& module);

}  // namespace tessera::model
