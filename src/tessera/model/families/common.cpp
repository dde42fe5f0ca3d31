#include "tessera/model/families/common.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace tessera::model {
namespace {

void read_heads(ConfigReader& config, const CommonDefaults& defaults, ModelSpec& spec) {
  spec.num_attention_heads = config.size("num_attention_heads");
  // Absent, it is the class's default; null means as many as query heads, as in the classes themselves.
  const bool is_null = config.json().contains("num_key_value_heads") && !config.has("num_key_value_heads");
  const std::int64_t fallback = is_null ? spec.num_attention_heads : defaults.num_key_value_heads.value_or(spec.num_attention_heads);
  spec.num_key_value_heads = config.size("num_key_value_heads", fallback);
  if (spec.num_attention_heads % spec.num_key_value_heads != 0) {
    config.contradicts("num_key_value_heads", {"num_attention_heads"},
                       fmt::format("({}) does not divide num_attention_heads ({})", spec.num_key_value_heads, spec.num_attention_heads),
                       "every key/value head serves the same number of query heads");
  }
  const auto head_dim = config.optional_size("head_dim");
  spec.head_dim = head_dim.value_or(defaults.head_dim.value_or(spec.hidden_size / spec.num_attention_heads));
  if (!head_dim && !defaults.head_dim && spec.hidden_size % spec.num_attention_heads != 0) {
    config.contradicts("hidden_size", {"num_attention_heads", "head_dim"},
                       fmt::format("({}) is not a multiple of num_attention_heads ({})", spec.hidden_size, spec.num_attention_heads),
                       "without head_dim every head has hidden_size / num_attention_heads dimensions");
  }
  spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
}

std::optional<std::int64_t> single_token(const Json& value) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  return value.get<std::int64_t>();
}

void read_eos_tokens(ConfigReader& config, ModelSpec& spec) {
  const Json* value = config.find("eos_token_id");
  if (value == nullptr) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& entry : list) {
    if (const auto id = single_token(entry)) spec.eos_token_ids.push_back(*id);
  }
}

void read_dtype(ConfigReader& config, ModelSpec& spec) {
  const std::string key = config.has("dtype") ? "dtype" : "torch_dtype";
  const std::string name = config.text(key, "float32");
  const auto dtype = dtype_from_torch(name);
  if (name == "auto") return;
  if (!dtype || (*dtype != DType::F32 && *dtype != DType::F16 && *dtype != DType::BF16 && *dtype != DType::F64)) {
    config.not_supported(key, "weights are float32, bfloat16, float16 or float64", "name the type that the weights are stored in");
    return;
  }
  spec.dtype = *dtype;
}

}  // namespace

void resize_layers(ConfigReader& config, const std::string& key, std::int64_t count, ModelSpec& spec) {
  constexpr std::int64_t most = 10'000;
  if (count > most) {
    config.wrong(key, fmt::format("is {}", count), fmt::format("a model has at most {} layers", most));
    count = 1;
  }
  spec.layers.resize(static_cast<std::size_t>(count));
}

void read_common(ConfigReader& config, const CommonDefaults& defaults, ModelSpec& spec) {
  read_sizes(config, defaults, spec);
  read_heads(config, defaults, spec);
}

void read_sizes(ConfigReader& config, const CommonDefaults& defaults, ModelSpec& spec) {
  spec.vocab_size = config.size("vocab_size");
  spec.hidden_size = config.size("hidden_size");
  spec.intermediate_size = config.size("intermediate_size");
  resize_layers(config, "num_hidden_layers", config.size("num_hidden_layers"), spec);
  spec.max_position_embeddings = config.size("max_position_embeddings", defaults.max_position_embeddings);
  spec.norm_eps = config.positive_number("rms_norm_eps", defaults.rms_norm_eps);
  spec.activation = read_activation(config, defaults.activation_key, defaults.activation);
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", defaults.tie_word_embeddings);
  spec.attention_dropout = config.probability("attention_dropout", 0.0);
  read_dtype_and_tokens(config, spec);
}

void read_dtype_and_tokens(ConfigReader& config, ModelSpec& spec) {
  spec.initializer_range = config.positive_number("initializer_range", 0.02);
  spec.bos_token_id = config.token_id("bos_token_id");
  spec.pad_token_id = config.token_id("pad_token_id");
  read_eos_tokens(config, spec);
  read_dtype(config, spec);
}

Activation read_activation(ConfigReader& config, const std::string& key, const std::string& fallback) {
  static const std::map<std::string, Activation, std::less<>> kActivations = {
      {"silu", Activation::Silu},           {"swish", Activation::Silu},
      {"gelu_new", Activation::GeluTanh},   {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu_fast", Activation::GeluTanh},  {"gelu", Activation::GeluErf},
      {"gelu_python", Activation::GeluErf}, {"relu", Activation::Relu},
  };
  const auto found = kActivations.find(config.text(key, fallback));
  if (found != kActivations.end()) return found->second;
  config.not_supported(key, "activations are silu, gelu, gelu_new, gelu_pytorch_tanh and relu");
  return Activation::Silu;
}

void read_attention_bias(ConfigReader& config, ModelSpec& spec) {
  spec.query_key_value_bias = config.boolean("attention_bias", false);
  spec.output_bias = spec.query_key_value_bias;
}

void use_sliding_window(ModelSpec& spec, std::optional<std::int64_t> window) {
  for (LayerSpec& layer : spec.layers) layer.sliding_window = window;
}

std::vector<bool> read_layer_types(ConfigReader& config, ModelSpec& spec, std::optional<std::int64_t> window,
                                   const std::function<bool(std::int64_t layer)>& sliding_by_default) {
  std::vector<bool> sliding(spec.layers.size());
  const Json* types = config.find("layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != spec.layers.size())) {
    config.contradicts("layer_types", {"num_hidden_layers"}, fmt::format("does not list a type for each of the {} layers", spec.layers.size()));
    return sliding;
  }
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    if (types == nullptr) {
      sliding[layer] = sliding_by_default(static_cast<std::int64_t>(layer));
    } else if ((*types)[layer] == "sliding_attention") {
      sliding[layer] = true;
    } else if ((*types)[layer] != "full_attention") {
      config.wrong("layer_types", fmt::format("{} is not supported", (*types)[layer].dump()), "layers are full_attention or sliding_attention");
      return sliding;
    }
    if (!sliding[layer]) continue;
    spec.layers[layer].sliding_window = window;
    if (!window) {
      config.contradicts("sliding_window", {"layer_types"}, fmt::format("is not set, but layer {} is a sliding_attention layer", layer));
      return sliding;
    }
  }
  return sliding;
}

namespace {

/// With use_sliding_window, layers slide where `by_default` says so of (layer, max_window_layers).
void read_qwen_sliding_layers(ConfigReader& config, ModelSpec& spec, const std::function<bool(std::int64_t, std::int64_t)>& by_default) {
  std::optional<std::int64_t> window;
  if (config.boolean("use_sliding_window", false)) window = config.json().contains("sliding_window") ? config.optional_size("sliding_window") : 4096;
  config.find("sliding_window");  // 0 in some files that do not use it
  const Json* limit = config.find("max_window_layers");
  const auto layers = limit != nullptr && limit->is_number_integer() ? limit->get<std::int64_t>() : 28;
  read_layer_types(config, spec, window, [&](std::int64_t layer) { return window && by_default(layer, layers); });
}

}  // namespace

void read_upper_sliding_layers(ConfigReader& config, ModelSpec& spec) {
  read_qwen_sliding_layers(config, spec, [](std::int64_t layer, std::int64_t first) { return layer >= first; });
}

void read_alternating_lower_layers(ConfigReader& config, ModelSpec& spec) {
  read_qwen_sliding_layers(config, spec, [](std::int64_t layer, std::int64_t end) { return layer % 2 == 0 && layer < end; });
}

void read_gemma_common(ConfigReader& config, std::int64_t max_position_embeddings, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = max_position_embeddings;
  defaults.num_key_value_heads = 4;
  defaults.head_dim = 256;
  defaults.tie_word_embeddings = true;
  defaults.activation_key = "hidden_activation";
  defaults.activation = "gelu_pytorch_tanh";
  read_common(config, defaults, spec);
  config.find("hidden_act");  // early files carry it; transformers reads hidden_activation
  read_attention_bias(config, spec);
  spec.norm_placement = NormPlacement::Sandwich;
  spec.norm_weight_offset = 1.0;
  spec.embedding_multiplier = std::sqrt(static_cast<double>(spec.hidden_size));
  spec.attention_scale = 1.0 / std::sqrt(config.positive_number("query_pre_attn_scalar", 256.0));
}

TensorNames llama_names() {
  TensorNames names;
  const std::string layer = "model.layers.{}.";
  names.base_prefix = "model.";
  names.embedding = "model.embed_tokens";
  names.final_norm = "model.norm";
  names.head = "lm_head";
  names.attention_norm = layer + "input_layernorm";
  names.feed_forward_norm = layer + "post_attention_layernorm";
  names.query = layer + "self_attn.q_proj";
  names.key = layer + "self_attn.k_proj";
  names.value = layer + "self_attn.v_proj";
  names.output = layer + "self_attn.o_proj";
  names.gate = layer + "mlp.gate_proj";
  names.up = layer + "mlp.up_proj";
  names.down = layer + "mlp.down_proj";
  return names;
}

TensorNames sandwich_names() {
  TensorNames names = llama_names();
  const std::string layer = "model.layers.{}.";
  names.attention_post_norm = layer + "post_attention_layernorm";
  names.feed_forward_norm = layer + "pre_feedforward_layernorm";
  names.feed_forward_post_norm = layer + "post_feedforward_layernorm";
  return names;
}

}  // namespace tessera::model
