#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/model/config_reader.h"
#include "tessera/model/spec.h"

/// What several families share. Defaults that differ between transformers' configuration classes are arguments.
namespace tessera::model {

struct CommonDefaults {
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> num_key_value_heads;  ///< absent: as many as query heads
  std::optional<std::int64_t> head_dim;             ///< absent: hidden_size / num_attention_heads
  std::string activation_key = "hidden_act";
  std::string activation = "silu";
};

/// Sizes, norm epsilon, activation, tying, attention dropout, initialisation, dtype and special tokens of an RMS-norm decoder; layers without sliding
/// window; attention_scale 1/sqrt(head_dim).
void read_common(ConfigReader& config, const CommonDefaults& defaults, ModelSpec& spec);

/// read_common without heads and attention_scale.
void read_sizes(ConfigReader& config, const CommonDefaults& defaults, ModelSpec& spec);

/// Gives the model `count` layers; a count beyond any model is a mistake in the field `key`, found before memory is spent on it.
void resize_layers(ConfigReader& config, const std::string& key, std::int64_t count, ModelSpec& spec);

/// dtype, special tokens and initializer_range, which every family has.
void read_dtype_and_tokens(ConfigReader& config, ModelSpec& spec);
Activation read_activation(ConfigReader& config, const std::string& key, const std::string& fallback);

/// attention_bias: on q, k, v and the output projection alike.
void read_attention_bias(ConfigReader& config, ModelSpec& spec);

/// The same window on every layer.
void use_sliding_window(ModelSpec& spec, std::optional<std::int64_t> window);
/// layer_types, one of "full_attention" and "sliding_attention" per layer; `sliding_by_default` decides when the field is absent.
/// Sliding layers get `window`, which must be there if any layer slides. Returns which layers slide.
std::vector<bool> read_layer_types(ConfigReader& config, ModelSpec& spec, std::optional<std::int64_t> window,
                                   const std::function<bool(std::int64_t layer)>& sliding_by_default);

/// qwen: with use_sliding_window, the layers from max_window_layers up slide unless layer_types says otherwise.
void read_upper_sliding_layers(ConfigReader& config, ModelSpec& spec);

/// qwen2_moe: with use_sliding_window, every other layer below max_window_layers slides unless layer_types says otherwise.
void read_alternating_lower_layers(ConfigReader& config, ModelSpec& spec);

/// What gemma2 and gemma3 share: norms around both halves with weights added to one, embeddings scaled by sqrt(hidden_size), the scale of attention
/// scores.
void read_gemma_common(ConfigReader& config, std::int64_t max_position_embeddings, ModelSpec& spec);

/// The tensor names of llama and most of its descendants.
TensorNames llama_names();
/// gemma's, with norms before and after attention and feed-forward.
TensorNames sandwich_names();

}  // namespace tessera::model
