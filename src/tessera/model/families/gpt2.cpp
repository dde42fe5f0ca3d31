#include <fmt/format.h>

#include <cmath>

#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"

namespace tessera::model {
namespace {

/// GPT-2's own name of a size, or the general one, which transformers accepts too.
std::int64_t size_by_either_name(ConfigReader& config, const std::string& own, const std::string& general) {
  return config.has(own) || !config.has(general) ? config.size(own) : config.size(general);
}

TensorNames gpt2_names() {
  TensorNames names;
  const std::string layer = "transformer.h.{}.";
  names.base_prefix = "transformer.";
  names.embedding = "transformer.wte";
  names.position_embedding = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.attention_norm = layer + "ln_1";
  names.feed_forward_norm = layer + "ln_2";
  names.query_key_value = layer + "attn.c_attn";
  names.output = layer + "attn.c_proj";
  names.up = layer + "mlp.c_fc";
  names.down = layer + "mlp.c_proj";
  names.transposed = true;
  return names;
}

void read_sizes(ConfigReader& config, ModelSpec& spec) {
  spec.vocab_size = config.size("vocab_size");
  spec.hidden_size = size_by_either_name(config, "n_embd", "hidden_size");
  spec.num_attention_heads = size_by_either_name(config, "n_head", "num_attention_heads");
  spec.num_key_value_heads = spec.num_attention_heads;
  resize_layers(config, "n_layer", size_by_either_name(config, "n_layer", "num_hidden_layers"), spec);
  spec.max_position_embeddings = size_by_either_name(config, "n_positions", "max_position_embeddings");
  spec.intermediate_size = config.size("n_inner", 4 * spec.hidden_size);
  spec.head_dim = spec.hidden_size / spec.num_attention_heads;
  if (spec.hidden_size % spec.num_attention_heads != 0) {
    config.contradicts("n_embd", {"hidden_size", "n_head", "num_attention_heads"},
                       fmt::format("({}) is not a multiple of n_head ({})", spec.hidden_size, spec.num_attention_heads));
  }
}

}  // namespace

/// Layer norms, learned positions, biases everywhere, plain feed-forward, weights stored transposed.
void describe_gpt2(ConfigReader& config, ModelSpec& spec) {
  read_sizes(config, spec);
  spec.position = PositionKind::Learned;
  spec.norm = NormKind::Layer;
  spec.norm_eps = config.positive_number("layer_norm_epsilon", 1e-5);
  spec.feed_forward = FeedForwardKind::Plain;
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.query_key_value_bias = spec.output_bias = spec.feed_forward_bias = true;
  spec.attention_scale = config.boolean("scale_attn_weights", true) ? 1.0 / std::sqrt(static_cast<double>(spec.head_dim)) : 1.0;
  if (config.boolean("scale_attn_by_inverse_layer_idx", false)) {
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) spec.layers[layer].attention_scale_factor = 1.0 / static_cast<double>(layer + 1);
  }
  spec.attention_dropout = config.probability("attn_pdrop", 0.1);
  spec.residual_dropout = config.probability("resid_pdrop", 0.1);
  spec.embedding_dropout = config.probability("embd_pdrop", 0.1);
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  spec.scale_residual_initialization = true;
  read_dtype_and_tokens(config, spec);
  spec.names = gpt2_names();
}

}  // namespace tessera::model
