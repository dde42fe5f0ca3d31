#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/json.h"

namespace tessera::test {

/// Random weights of a family with eight experts and as many layers as asked for.
inline Json small_expert_model(const std::string& type, std::int64_t num_layers, std::int64_t experts_per_token = 2) {
  Json config = {{"model_type", type},
                 {"vocab_size", 61},
                 {"hidden_size", 32},
                 {"intermediate_size", 48},
                 {"moe_intermediate_size", 24},
                 {"num_hidden_layers", num_layers},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"head_dim", 4},
                 {"num_experts_per_tok", experts_per_token},
                 {"pad_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"initializer_range", 0.2}};
  if (type != "deepseek_v3") {
    config["num_experts"] = 8;
    return config;
  }
  config.update({{"num_key_value_heads", 8},
                 {"n_routed_experts", 8},
                 {"n_shared_experts", 1},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"first_k_dense_replace", 1},
                 {"q_lora_rank", 12},
                 {"kv_lora_rank", 16},
                 {"qk_nope_head_dim", 8},
                 {"qk_rope_head_dim", 4},
                 {"v_head_dim", 12}});
  config.erase("head_dim");
  return config;
}

}  // namespace tessera::test
