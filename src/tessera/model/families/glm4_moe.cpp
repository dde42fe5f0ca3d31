#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// GLM-4.5 and 4.6: DeepSeek's experts behind grouped-query attention with biases, half of each head rotated, heads perhaps normalised.
void describe_glm4_moe(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 131072;
  defaults.num_key_value_heads = 8;
  defaults.rms_norm_eps = 1e-5;
  read_common(config, defaults, spec);
  spec.query_key_value_bias = config.boolean("attention_bias", false);
  if (config.boolean("use_qk_norm", false)) spec.query_key_norm = QueryKeyNorm::Head;
  RopeDefaults rope;
  rope.partial = true;
  rope.partial_factor = 0.5;
  spec.ropes = {read_rope(config, spec, rope)};
  read_deepseek_experts(config, {.num_groups = 1, .groups_per_token = 1, .experts_per_token = 8, .first_dense_layers = 1, .scale = 1.0}, spec);
  spec.names = llama_names();
  spec.names.query_norm = "model.layers.{}.self_attn.q_norm";
  spec.names.key_norm = "model.layers.{}.self_attn.k_norm";
  name_experts(spec.names);
  spec.names.correction_bias = "model.layers.{}.mlp.gate.e_score_correction_bias";
  name_shared_expert(spec.names, "shared_experts");
}

}  // namespace tessera::model
