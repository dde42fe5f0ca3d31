#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// Llama 1 to 3, SmolLM, TinyLlama, Yi and everything else that says model_type llama.
void describe_llama(ConfigReader& config, ModelSpec& spec) {
  read_common(config, {}, spec);
  read_attention_bias(config, spec);
  spec.feed_forward_bias = config.boolean("mlp_bias", false);
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
}

}  // namespace tessera::model
