#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A qwen2 with experts, and one more that sees every token, weighted by a sigmoid of its own.
void describe_qwen2_moe(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 32768;
  read_common(config, defaults, spec);
  read_alternating_lower_layers(config, spec);
  spec.query_key_value_bias = config.boolean("qkv_bias", true);
  spec.ropes = {read_rope(config, spec)};
  ExpertsSpec experts;
  experts.num_experts = read_num_experts(config, {"num_experts", "num_local_experts"});
  experts.intermediate_size = config.size("moe_intermediate_size");
  experts.shared_intermediate_size = config.size("shared_expert_intermediate_size");
  experts.shared_gate = true;
  experts.normalize = config.boolean("norm_topk_prob", false);
  read_experts_per_token(config, 4, experts);
  read_router_extras(config);
  read_sparse_layers(config, experts, spec);
  spec.names = llama_names();
  name_experts(spec.names);
  name_shared_expert(spec.names, "shared_expert");
  spec.names.shared_expert_gate = "model.layers.{}.mlp.shared_expert_gate";
}

}  // namespace tessera::model
