#include <cstdio>

#include "tessera/model/config.h"
#include "tessera/model/flat_memory.h"
#include "tessera/model/parameter_table.h"

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
  "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
  "rope_theta": 100000, "hidden_act": "silu", "tie_word_embeddings": true})";

int main() {
  const auto spec = tessera::model::model_spec_from_json(tessera::parse_json(kConfig, "config"), "config");
  std::printf("parameters: %ld\n", static_cast<long>(tessera::model::parameter_table(spec).num_elements()));
  return tessera::model::allocate_flat(8, tessera::DType::F32).numel() == 8 ? 0 : 1;
}
