#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {
namespace {

/// The configuration class stretches by yarn unless the file says otherwise.
RopeSpec read_yarn_by_default(ConfigReader& config, const ModelSpec& spec) {
  RopeDefaults defaults;
  defaults.theta = 150000.0;
  if (config.has("rope_scaling") || config.has("rope_parameters")) return read_rope(config, spec, defaults);
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                     {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  return read_rope_object(config, yarn, "rope_parameters", spec, defaults);
}

}  // namespace

/// Sliding and full attention in alternate layers, with sinks; biases everywhere; experts with a clamped activation, stacked in the checkpoint.
void describe_gpt_oss(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 131072;
  defaults.num_key_value_heads = 8;
  defaults.head_dim = 64;
  defaults.rms_norm_eps = 1e-5;
  read_common(config, defaults, spec);
  spec.query_key_value_bias = spec.output_bias = config.boolean("attention_bias", true);
  const std::optional<std::int64_t> window = config.json().contains("sliding_window") ? config.optional_size("sliding_window") : 128;
  read_layer_types(config, spec, window, [](std::int64_t layer) { return layer % 2 == 0; });
  spec.attention_sinks = true;
  spec.ropes = {read_yarn_by_default(config, spec)};
  config.find("initial_context_length");  // what rope_scaling says too
  config.find("experts_per_token");       // an older name of num_experts_per_tok
  ExpertsSpec experts;
  experts.num_experts = read_num_experts(config, {"num_local_experts", "num_experts"});
  experts.intermediate_size = spec.intermediate_size;
  experts.scoring = RouterScoring::TopKThenSoftmax;
  experts.router_bias = experts.bias = true;
  experts.limit = config.positive_number("swiglu_limit", 7.0);
  experts.alpha = config.positive_number("swiglu_alpha", 1.702);
  experts.stacked = experts.interleaved_gate = true;
  read_experts_per_token(config, 4, experts);
  read_router_extras(config);
  use_experts(spec, experts, [](std::int64_t) { return true; });
  spec.names = llama_names();
  spec.names.sinks = "model.layers.{}.self_attn.sinks";
  spec.names.router = "model.layers.{}.mlp.router";
  spec.names.expert_gate_up = "model.layers.{}.mlp.experts.gate_up_proj";
  spec.names.expert_down = "model.layers.{}.mlp.experts.down_proj";
}

}  // namespace tessera::model
