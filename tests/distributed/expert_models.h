#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/core/json.h"

namespace tessera::test {

/// What the configuration of each family has beside the sizes that all have.
inline const std::map<std::string, Json> kExpertFamilies = [] {
  const Json latent{{"kv_lora_rank", 16}, {"qk_nope_head_dim", 8}, {"qk_rope_head_dim", 4}, {"v_head_dim", 12}, {"head_dim", nullptr}};
  const Json shared{{"n_routed_experts", 8}, {"n_shared_experts", 1}, {"first_k_dense_replace", 1}, {"moe_intermediate_size", 24}};
  std::map<std::string, Json> all{
      {"mixtral", {{"num_local_experts", 8}, {"sliding_window", 7}}},
      {"qwen2_moe", {{"num_experts", 8}, {"moe_intermediate_size", 24}, {"shared_expert_intermediate_size", 16}, {"mlp_only_layers", {1}}}},
      {"qwen3_moe", {{"num_experts", 8}, {"moe_intermediate_size", 24}}},
      {"gpt_oss", {{"num_local_experts", 8}, {"sliding_window", 7}}},
      {"glm4_moe", {{"attention_bias", true}, {"use_qk_norm", true}, {"n_group", 1}, {"topk_group", 1}}},
      {"deepseek_v3", {{"q_lora_rank", 12}, {"n_group", 4}, {"topk_group", 2}, {"num_key_value_heads", 8}}}};
  all["glm4_moe"].update(shared);
  all["deepseek_v3"].update(shared);
  all["deepseek_v3"].update(latent);
  all["deepseek_v3_yarn"] = all["deepseek_v3"];
  all["deepseek_v3_yarn"].update(
      {{"q_lora_rank", nullptr},
       {"rope_scaling",
        {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 1.0}, {"mscale_all_dim", 0.7}, {"original_max_position_embeddings", 16}}}});
  return all;
}();

/// Random weights of a family with eight experts and as many layers as asked for.
inline Json small_expert_model(const std::string& family, std::int64_t num_layers, std::int64_t experts_per_token = 2) {
  Json config = {{"model_type", family == "deepseek_v3_yarn" ? "deepseek_v3" : family},
                 {"vocab_size", 61},
                 {"hidden_size", 32},
                 {"intermediate_size", 48},
                 {"num_hidden_layers", num_layers},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"head_dim", 4},
                 {"num_experts_per_tok", experts_per_token},
                 {"pad_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"initializer_range", 0.2}};
  config.update(kExpertFamilies.at(family));
  if (experts_per_token == 8 && config.contains("n_group")) config["topk_group"] = config["n_group"];
  return config;
}

}  // namespace tessera::test
