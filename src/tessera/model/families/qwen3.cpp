#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A llama that normalises every query and key head; head_dim is 128 whatever hidden_size is, and the upper layers may slide.
void describe_qwen3(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 32768;
  defaults.head_dim = 128;
  read_common(config, defaults, spec);
  read_attention_bias(config, spec);
  read_upper_sliding_layers(config, spec);
  spec.query_key_norm = QueryKeyNorm::Head;
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
  spec.names.query_norm = "model.layers.{}.self_attn.q_norm";
  spec.names.key_norm = "model.layers.{}.self_attn.k_norm";
}

}  // namespace tessera::model
