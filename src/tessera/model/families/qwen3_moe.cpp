#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A qwen3 with experts.
void describe_qwen3_moe(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 32768;
  defaults.num_key_value_heads = 4;
  read_common(config, defaults, spec);
  read_attention_bias(config, spec);
  use_sliding_window(spec, config.boolean("use_sliding_window", false) ? config.optional_size("sliding_window") : std::nullopt);
  config.find("sliding_window");
  spec.query_key_norm = QueryKeyNorm::Head;
  spec.ropes = {read_rope(config, spec)};
  ExpertsSpec experts;
  experts.num_experts = read_num_experts(config, {"num_experts", "num_local_experts"});
  experts.intermediate_size = config.size("moe_intermediate_size");
  experts.normalize = config.boolean("norm_topk_prob", false);
  read_experts_per_token(config, 8, experts);
  read_router_extras(config);
  read_sparse_layers(config, experts, spec);
  spec.names = llama_names();
  spec.names.query_norm = "model.layers.{}.self_attn.q_norm";
  spec.names.key_norm = "model.layers.{}.self_attn.k_norm";
  name_experts(spec.names);
}

}  // namespace tessera::model
