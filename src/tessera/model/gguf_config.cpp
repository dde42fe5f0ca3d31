#include "tessera/model/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/formats/gguf_dequantize.h"
#include "tessera/model/config.h"
#include "tessera/model/rope.h"

namespace tessera::model {
namespace {

using formats::GgufFile;
using formats::GgufTensor;

/// What each architecture is called here, and its class in transformers.
struct Architecture {
  std::string model_type;
  std::string transformers_class;
};

const std::map<std::string, Architecture, std::less<>>& architectures() {
  static const std::map<std::string, Architecture, std::less<>> kArchitectures = {
      {"llama", {"llama", "LlamaForCausalLM"}},    {"qwen2", {"qwen2", "Qwen2ForCausalLM"}},         {"qwen3", {"qwen3", "Qwen3ForCausalLM"}},
      {"gemma2", {"gemma2", "Gemma2ForCausalLM"}}, {"gemma3", {"gemma3_text", "Gemma3ForCausalLM"}}, {"gpt2", {"gpt2", "GPT2LMHeadModel"}},
      {"phi3", {"phi3", "Phi3ForCausalLM"}},       {"olmo2", {"olmo2", "Olmo2ForCausalLM"}},         {"granite", {"granite", "GraniteForCausalLM"}},
  };
  return kArchitectures;
}

constexpr const char* kTakeHuggingFace = "take the model's Hugging Face directory in place of the GGUF file, or another model";

/// The shortest decimal that is the same float32: 1e-05 where the file holds 9.99999974e-06.
double shortest(double value) { return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr); }

class Translator {
 public:
  explicit Translator(const GgufFile& file) : file_(file), where_(file.path().string()) {}

  Json translate() {
    read_architecture();
    read_sizes();
    read_tokens();
    refuse_foreign_keys();
    if (arch_ == "gpt2") {
      name_for_gpt2();
    } else {
      read_rope();
    }
    read_peculiarities();
    problems_.throw_if_any();
    warn_about_unread();
    return config_;
  }

 private:
  /// A metadata key of the architecture, which from now on counts as read.
  std::string key(const std::string& name) { return *read_.insert(arch_ + "." + name).first; }
  std::optional<std::int64_t> integer(const std::string& name) { return file_.find_integer(key(name)); }
  std::optional<double> number(const std::string& name) { return file_.find_number(key(name)); }
  bool has_tensor(const std::string& name) const { return file_.find(name) != nullptr; }

  template <class Value>
  Value required(std::optional<Value> value, const std::string& name) {
    if (value) return *value;
    problems_.add(
        {where_, fmt::format("metadata key {} is missing", key(name)), "the model cannot be derived without it", formats::kConvertGgufAgain});
    return 1;
  }
  std::int64_t required(const std::string& name) { return required(integer(name), name); }
  double epsilon(const std::string& name) { return shortest(required(number(name), name)); }

  void refuse(const std::string& what, const std::string& rule) { problems_.add({where_, what + " is not supported", rule, kTakeHuggingFace}); }

  void read_architecture() {
    arch_ = file_.find_string("general.architecture").value_or("");
    const auto found = architectures().find(arch_);
    if (found == architectures().end()) {
      std::string known;
      for (const auto& [name, unused] : architectures()) known += (known.empty() ? "" : ", ") + name;
      throw UserError({where_, fmt::format("architecture '{}' is not supported", arch_), "supported: " + known,
                       "choose a model of one of these, or its Hugging Face directory if that is supported"});
    }
    config_["model_type"] = found->second.model_type;
    config_["architectures"] = Json::array({found->second.transformers_class});
  }

  void read_sizes() {
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2)
      throw UserError({where_, "tensor token_embd.weight is missing", "", formats::kConvertGgufAgain});
    config_["vocab_size"] = embedding->shape[0];
    const auto tokens = file_.find_strings("tokenizer.ggml.tokens");
    if (tokens && std::ssize(*tokens) > embedding->shape[0])
      problems_.add({where_, fmt::format("tokenizer.ggml.tokens has {} tokens, token_embd.weight {} rows", tokens->size(), embedding->shape[0]),
                     "every token has a row of the embedding", formats::kConvertGgufAgain});
    config_["hidden_size"] = required("embedding_length");
    config_["intermediate_size"] = required("feed_forward_length");
    config_["num_hidden_layers"] = required("block_count");
    config_["max_position_embeddings"] = required("context_length");
    const std::int64_t heads = std::max<std::int64_t>(1, required("attention.head_count"));
    config_["num_attention_heads"] = heads;
    config_["num_key_value_heads"] = integer("attention.head_count_kv").value_or(heads);
    head_dim_ = integer("attention.key_length").value_or(config_["hidden_size"].get<std::int64_t>() / heads);
    config_["head_dim"] = head_dim_;
    if (const auto value_length = integer("attention.value_length"); value_length && *value_length != head_dim_) {
      refuse(fmt::format("{}: {}", key("attention.value_length"), *value_length), "values have as many dimensions as keys");
    }
    if (arch_ != "gpt2") config_["rms_norm_eps"] = epsilon("attention.layer_norm_rms_epsilon");
    config_["attention_bias"] = has_tensor("blk.0.attn_q.bias") && arch_ != "qwen2";
    config_["mlp_bias"] = has_tensor("blk.0.ffn_down.bias") && arch_ != "gpt2";
  }

  void read_tokens() {
    for (const auto& [name, field] : {std::pair("bos", "bos_token_id"), std::pair("eos", "eos_token_id"), std::pair("padding", "pad_token_id")}) {
      if (const auto id = file_.find_integer(fmt::format("tokenizer.ggml.{}_token_id", name))) config_[field] = *id;
    }
    // The token that ends a turn, where it is not the one that ends a text, stops generation too.
    const auto end_of_turn = file_.find_integer("tokenizer.ggml.eot_token_id");
    if (end_of_turn && config_.contains("eos_token_id") && config_["eos_token_id"] != *end_of_turn) {
      config_["eos_token_id"] = Json::array({config_["eos_token_id"], *end_of_turn});
    }
  }

  /// Keys that change the mathematics of an architecture that is not known to use them.
  void refuse_foreign_keys() {
    const bool granite = arch_ == "granite";
    for (const std::string name : {"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}) {
      if (!granite && number(name).value_or(0.0) != 0.0) refuse(key(name), "only granite models have multipliers");
    }
    for (const std::string name :
         {"expert_count", "attention.clamp_kqv", "attention.max_alibi_bias", "attention.q_lora_rank", "attention.temperature_scale"}) {
      if (number(name).value_or(0.0) != 0.0) refuse(key(name), "the architecture is known without it");
    }
    if (!file_.find_bool(key("attention.causal")).value_or(true)) refuse(key("attention.causal") + ": false", "models here are causal");
    const bool gemma = arch_ == "gemma2" || arch_ == "gemma3";
    for (const std::string name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (!gemma && number(name).value_or(0.0) != 0.0) refuse(key(name), "only gemma models have soft caps");
    }
    const bool slides = gemma || arch_ == "phi3";
    if (!slides && integer("attention.sliding_window").value_or(0) != 0)
      refuse(key("attention.sliding_window"), "this architecture attends to everything");
  }

  void name_for_gpt2() {
    const Json sizes = config_;
    config_ = {{"model_type", sizes["model_type"]}, {"architectures", sizes["architectures"]}, {"vocab_size", sizes["vocab_size"]}};
    for (const auto& [from, to] :
         {std::pair("hidden_size", "n_embd"), std::pair("intermediate_size", "n_inner"), std::pair("num_hidden_layers", "n_layer"),
          std::pair("num_attention_heads", "n_head"), std::pair("max_position_embeddings", "n_positions")}) {
      config_[to] = sizes[from];
    }
    for (const std::string field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      if (sizes.contains(field)) config_[field] = sizes[field];
    }
    config_["layer_norm_epsilon"] = epsilon("attention.layer_norm_epsilon");
    config_["activation_function"] = "gelu_new";
  }

  void read_rope() {
    config_["rope_theta"] = shortest(number("rope.freq_base").value_or(10000.0));
    const std::int64_t rotated = integer("rope.dimension_count").value_or(head_dim_);
    if (rotated != head_dim_) config_["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim_);
    if (has_tensor("rope_factors_long.weight")) return read_longrope();
    if (has_tensor("rope_freqs.weight")) return read_llama3_rope();
    // As llama.cpp reads them: older files have scale_linear alone, and a factor without a type is of the linear kind.
    const std::string type = file_.find_string(key("rope.scaling.type")).value_or("linear");
    const double older_factor = number("rope.scale_linear").value_or(1.0);
    const double factor = shortest(number("rope.scaling.factor").value_or(older_factor));
    if (type == "none" || (type == "linear" && factor == 1.0)) return;
    Json scaling = {{"rope_type", type}, {"factor", factor}};
    if (type == "yarn") {
      scaling["original_max_position_embeddings"] = required("rope.scaling.original_context_length");
      refuse_yarn_details();
    } else if (type != "linear") {
      refuse(fmt::format("{}: {}", key("rope.scaling.type"), type), "rotary embeddings in GGUF files are plain, linear, yarn, longrope or llama3");
    }
    config_["rope_scaling"] = scaling;
  }

  void refuse_yarn_details() {
    for (const std::string name : {"attn_factor", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"}) {
      if (number("rope.scaling." + name)) refuse(key("rope.scaling." + name), "yarn is imported with its usual constants");
    }
  }

  std::vector<float> read_vector(const std::string& name) const {
    const GgufTensor& tensor = *file_.find(name);
    std::uint64_t size = 1;
    for (const std::int64_t dim : tensor.shape) size *= static_cast<std::uint64_t>(dim);
    std::vector<float> values(size);
    if (!formats::can_dequantize(tensor.type))
      throw UserError({where_, fmt::format("tensor {} has a type that is not supported", name), "", formats::kConvertGgufAgain});
    formats::dequantize(tensor.type, file_.bytes(tensor), values);
    return values;
  }

  void read_longrope() {
    const auto as_json = [&](const std::string& name) {
      Json list = Json::array();
      for (const float factor : read_vector(name)) list.push_back(shortest(factor));
      return list;
    };
    if (!has_tensor("rope_factors_short.weight"))
      throw UserError({where_, "tensor rope_factors_short.weight is missing", "", formats::kConvertGgufAgain});
    config_["rope_scaling"] = {
        {"type", "longrope"}, {"long_factor", as_json("rope_factors_long.weight")}, {"short_factor", as_json("rope_factors_short.weight")}};
    config_["original_max_position_embeddings"] = required("rope.scaling.original_context_length");
  }

  /// The file holds, instead of llama3's four numbers, what each frequency is divided by. Released models share all but the factor, which is the
  /// largest divisor; anything that these do not reproduce is refused.
  void read_llama3_rope() {
    const std::vector<float> divisors = read_vector("rope_freqs.weight");
    RopeSpec rope;
    rope.kind = RopeKind::Llama3;
    rope.theta = config_["rope_theta"];
    rope.rotary_dim = 2 * static_cast<std::int64_t>(divisors.size());
    rope.factor = divisors.empty() ? 1.0 : shortest(*std::ranges::max_element(divisors));
    rope.original_max_position_embeddings = 8192;
    const auto scaled = rope_frequencies(rope, 1).inverse_frequencies;
    rope.kind = RopeKind::Default;
    const auto plain = rope_frequencies(rope, 1).inverse_frequencies;
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      if (std::abs(plain[i] / scaled[i] - divisors[i]) <= 1e-3 * divisors[i]) continue;
      return refuse("rope_freqs.weight", "only Llama 3's frequency scaling (low 1, high 4, original context 8192) is known in this form");
    }
    if (rope.factor == 1.0) return;
    config_["rope_scaling"] = {{"rope_type", "llama3"},
                               {"factor", rope.factor},
                               {"low_freq_factor", 1.0},
                               {"high_freq_factor", 4.0},
                               {"original_max_position_embeddings", 8192}};
  }

  void read_peculiarities() {
    if (arch_ == "granite") read_granite();
    if (arch_ == "gemma2" || arch_ == "gemma3") read_gemma();
    if (arch_ == "phi3" && integer("attention.sliding_window").value_or(0) > 0) config_["sliding_window"] = *integer("attention.sliding_window");
    if (arch_ != "gemma2" && arch_ != "gemma3" && arch_ != "gpt2") config_["hidden_act"] = "silu";
  }

  void warn_about_unread() {
    for (const std::string name : {"vocab_size", "rope.dimension_count", "rope.freq_base", "rope.scaling.finetuned", "rope.scaling.type",
                                   "rope.scaling.factor", "rope.scaling.attn_factor", "rope.scaling.original_context_length", "tensor_data_layout"})
      read_.insert(arch_ + "." + name);  // change nothing where they are not read
    for (const auto& [name, value] : file_.header().metadata)
      if (name.starts_with(arch_ + ".") && !read_.contains(name)) log::warning("{}: metadata key {} is not known; it is ignored", where_, name);
  }

  void read_granite() {
    for (const auto& [name, field] : {std::pair("attention.scale", "attention_multiplier"), std::pair("embedding_scale", "embedding_multiplier"),
                                      std::pair("residual_scale", "residual_multiplier"), std::pair("logit_scale", "logits_scaling")}) {
      if (const auto value = number(name)) config_[field] = shortest(*value);
    }
  }

  void read_gemma() {
    const auto cap = [&](const std::string& name) { return number(name) ? Json(shortest(*number(name))) : Json(); };
    config_["attn_logit_softcapping"] = cap("attn_logit_softcapping");
    config_["final_logit_softcapping"] = cap("final_logit_softcapping");
    config_["hidden_activation"] = "gelu_pytorch_tanh";
    config_["sliding_window"] = required("attention.sliding_window");
    // Only the 27B models scale by hidden_size / num_attention_heads; llama.cpp knows them by their depth.
    const std::int64_t layers = config_["num_hidden_layers"];
    const bool largest = layers == (arch_ == "gemma2" ? 46 : 62);
    config_["query_pre_attn_scalar"] =
        largest ? config_["hidden_size"].get<std::int64_t>() / config_["num_attention_heads"].get<std::int64_t>() : head_dim_;
    if (arch_ != "gemma3") return;
    config_["rope_local_base_freq"] = shortest(number("rope.freq_base_swa").value_or(10000.0));
    config_["rope_theta"] = shortest(number("rope.freq_base").value_or(1e6));
    config_["sliding_window_pattern"] = 6;
  }

  const GgufFile& file_;
  std::string where_;
  std::string arch_;
  std::set<std::string> read_;  ///< metadata keys of the architecture
  std::int64_t head_dim_ = 0;
  Json config_ = Json::object();
  ProblemList problems_;
};

}  // namespace

Json gguf_config(const GgufFile& file) { return Translator(file).translate(); }

}  // namespace tessera::model
