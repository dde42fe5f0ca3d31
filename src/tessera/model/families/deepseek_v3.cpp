#include <fmt/format.h>

#include <cmath>

#include "tessera/model/families/common.h"
#include "tessera/model/families/experts_config.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {
namespace {

LatentAttentionSpec read_latent_attention(ConfigReader& config) {
  LatentAttentionSpec latent;
  const bool null_rank = config.json().contains("q_lora_rank") && !config.has("q_lora_rank");
  latent.query_rank = null_rank ? 0 : config.size("q_lora_rank", 1536);
  latent.rank = config.size("kv_lora_rank", 512);
  latent.nope_head_dim = config.size("qk_nope_head_dim", 128);
  latent.rope_head_dim = config.size("qk_rope_head_dim", 64);
  latent.interleaved_rope = config.boolean("rope_interleave", true);
  return latent;
}

/// yarn with mscale_all_dim sharpens attention: scores are multiplied by its mscale, squared.
double yarn_score_factor(const RopeSpec& rope) {
  const double all_dims = rope.mscale_all_dim.value_or(0.0);
  if (rope.kind != RopeKind::Yarn || all_dims == 0.0 || rope.factor <= 1.0) return 1.0;
  const double mscale = 0.1 * all_dims * std::log(rope.factor) + 1.0;
  return mscale * mscale;
}

TensorNames deepseek_names() {
  TensorNames names = llama_names();
  const std::string attention = "model.layers.{}.self_attn.";
  names.query_down = attention + "q_a_proj";
  names.query_down_norm = attention + "q_a_layernorm";
  names.query_up = attention + "q_b_proj";
  names.key_value_down = attention + "kv_a_proj_with_mqa";
  names.key_value_down_norm = attention + "kv_a_layernorm";
  names.key_value_up = attention + "kv_b_proj";
  name_experts(names);
  names.correction_bias = "model.layers.{}.mlp.gate.e_score_correction_bias";
  name_shared_expert(names, "shared_experts");
  return names;
}

}  // namespace

/// DeepSeek-V3 and R1: latent attention, sigmoid routing in groups.
void describe_deepseek_v3(ConfigReader& config, ModelSpec& spec) {
  const LatentAttentionSpec latent = read_latent_attention(config);
  config.find("head_dim");     // transformers writes rope_head_dim here and reads nothing
  config.find("qk_head_dim");  // nope + rope
  CommonDefaults defaults;
  defaults.max_position_embeddings = 4096;
  read_sizes(config, defaults, spec);
  spec.num_attention_heads = config.size("num_attention_heads");
  spec.num_key_value_heads = spec.num_attention_heads;
  const std::int64_t key_value_heads = config.size("num_key_value_heads", spec.num_attention_heads);
  if (key_value_heads != spec.num_attention_heads)
    config.contradicts("num_key_value_heads", {"num_attention_heads"},
                       fmt::format("({}) is not num_attention_heads ({})", key_value_heads, spec.num_attention_heads),
                       "latent attention gives every head its own keys and values");
  spec.head_dim = latent.nope_head_dim + latent.rope_head_dim;
  spec.value_head_dim = config.size("v_head_dim", 128);
  spec.latent_attention = latent;
  read_attention_bias(config, spec);
  // Rotary embedding sees the rotated part alone.
  ModelSpec rotated = spec;
  rotated.head_dim = latent.rope_head_dim;
  spec.ropes = {read_rope(config, rotated)};
  spec.attention_scale = yarn_score_factor(spec.ropes[0]) / std::sqrt(static_cast<double>(spec.head_dim));
  read_deepseek_experts(config, {.num_groups = 8, .groups_per_token = 4, .experts_per_token = 8, .first_dense_layers = 3, .scale = 2.5}, spec);
  config.find("ep_size");  // how somebody ran it
  spec.names = deepseek_names();
  if (latent.query_rank == 0) spec.names.query_up = "model.layers.{}.self_attn.q_proj";
}

}  // namespace tessera::model
