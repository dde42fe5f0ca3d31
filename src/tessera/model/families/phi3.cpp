#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// Phi-3 to Phi-4-mini: q, k, v and gate, up are fused in the checkpoint; rotary embedding is plain or longrope, perhaps on part of each head.
void describe_phi3(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 4096;
  defaults.rms_norm_eps = 1e-5;
  read_common(config, defaults, spec);
  spec.residual_dropout = config.probability("resid_pdrop", 0.0);
  config.find("embd_pdrop");  // transformers reads it and never applies it
  use_sliding_window(spec, config.optional_size("sliding_window"));
  RopeDefaults rope;
  rope.partial = true;
  rope.older_longrope_names = true;
  spec.ropes = {read_rope(config, spec, rope)};
  if (spec.ropes[0].kind != RopeKind::Default && spec.ropes[0].kind != RopeKind::Longrope) {
    config.not_supported(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters",
                         "phi3 models are trained with default or longrope embeddings");
  }
  spec.names = llama_names();
  spec.names.query = spec.names.key = spec.names.value = spec.names.gate = spec.names.up = "";
  spec.names.query_key_value = "model.layers.{}.self_attn.qkv_proj";
  spec.names.gate_up = "model.layers.{}.mlp.gate_up_proj";
}

}  // namespace tessera::model
