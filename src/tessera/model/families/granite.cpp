#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A llama with multipliers on embedding, residual branches, attention scores and logits.
void describe_granite(ConfigReader& config, ModelSpec& spec) {
  read_common(config, {}, spec);
  read_attention_bias(config, spec);
  spec.feed_forward_bias = config.boolean("mlp_bias", false);
  spec.embedding_multiplier = config.positive_number("embedding_multiplier", 1.0);
  spec.residual_multiplier = config.positive_number("residual_multiplier", 1.0);
  spec.logits_divisor = config.positive_number("logits_scaling", 1.0);
  spec.attention_scale = config.positive_number("attention_multiplier", 1.0);
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
}

}  // namespace tessera::model
