#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A llama with biases on q, k and v; the upper layers may slide.
void describe_qwen2(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 32768;
  read_common(config, defaults, spec);
  read_upper_sliding_layers(config, spec);
  spec.query_key_value_bias = true;
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
}

}  // namespace tessera::model
