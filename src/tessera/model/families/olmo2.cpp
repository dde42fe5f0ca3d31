#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// Norms after attention and feed-forward instead of before; queries and keys are normalised over the whole projection.
void describe_olmo2(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.rms_norm_eps = 1e-5;
  read_common(config, defaults, spec);
  read_attention_bias(config, spec);
  spec.norm_placement = NormPlacement::Post;
  spec.query_key_norm = QueryKeyNorm::Projection;
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
  spec.names.attention_norm = spec.names.feed_forward_norm = "";
  spec.names.attention_post_norm = "model.layers.{}.post_attention_layernorm";
  spec.names.feed_forward_post_norm = "model.layers.{}.post_feedforward_layernorm";
  spec.names.query_norm = "model.layers.{}.self_attn.q_norm";
  spec.names.key_norm = "model.layers.{}.self_attn.k_norm";
}

}  // namespace tessera::model
