#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A mistral whose every feed-forward is a mixture: softmax over all experts, the chosen weights made to sum to one.
void describe_mixtral(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 4096 * 32;
  defaults.num_key_value_heads = 8;
  defaults.rms_norm_eps = 1e-5;
  read_common(config, defaults, spec);
  use_sliding_window(spec, config.optional_size("sliding_window"));
  RopeDefaults rope;
  rope.theta = 1e6;
  spec.ropes = {read_rope(config, spec, rope)};
  ExpertsSpec experts;
  experts.num_experts = read_num_experts(config, {"num_local_experts", "num_experts"});
  experts.intermediate_size = spec.intermediate_size;
  experts.normalize = true;
  read_experts_per_token(config, 2, experts);
  read_router_extras(config);
  use_experts(spec, experts, [](std::int64_t) { return true; });
  spec.names = llama_names();
  const std::string mixture = "model.layers.{}.block_sparse_moe.";
  spec.names.router = mixture + "gate";
  spec.names.expert_gate = mixture + "experts.{}.w1";
  spec.names.expert_up = mixture + "experts.{}.w3";
  spec.names.expert_down = mixture + "experts.{}.w2";
}

}  // namespace tessera::model
