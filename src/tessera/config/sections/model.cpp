#include "tessera/config/sections/read.h"

namespace tessera::config {

namespace {

using S = Model;

/// Fields of config.json that a recipe may set as keyword arguments of the model. What they mean is the model layer's business.
constexpr std::string_view config_fields[] = {"architectures",
                                              "activation_function",
                                              "attention_bias",
                                              "attention_dropout",
                                              "attention_multiplier",
                                              "attn_logit_softcapping",
                                              "attn_pdrop",
                                              "bos_token_id",
                                              "decoder_sparse_step",
                                              "embd_pdrop",
                                              "embedding_multiplier",
                                              "eos_token_id",
                                              "final_logit_softcapping",
                                              "first_k_dense_replace",
                                              "head_dim",
                                              "hidden_act",
                                              "hidden_activation",
                                              "hidden_size",
                                              "initializer_range",
                                              "intermediate_size",
                                              "kda_mode",
                                              "kv_lora_rank",
                                              "layer_norm_epsilon",
                                              "layer_types",
                                              "logits_scaling",
                                              "max_position_embeddings",
                                              "max_window_layers",
                                              "mlp_bias",
                                              "mlp_only_layers",
                                              "moe_intermediate_size",
                                              "mtp_use_repeated_layer",
                                              "n_ctx",
                                              "n_embd",
                                              "n_group",
                                              "n_head",
                                              "n_inner",
                                              "n_layer",
                                              "n_positions",
                                              "n_routed_experts",
                                              "n_shared_experts",
                                              "norm_topk_prob",
                                              "num_attention_heads",
                                              "num_experts",
                                              "num_experts_per_tok",
                                              "num_hidden_layers",
                                              "num_key_value_heads",
                                              "num_labels",
                                              "num_local_experts",
                                              "num_nextn_predict_layers",
                                              "output_hidden_states",
                                              "output_router_logits",
                                              "pad_token_id",
                                              "partial_rotary_factor",
                                              "q_lora_rank",
                                              "qk_nope_head_dim",
                                              "qk_rope_head_dim",
                                              "query_pre_attn_scalar",
                                              "resid_pdrop",
                                              "residual_multiplier",
                                              "rms_norm_eps",
                                              "rope_parameters",
                                              "rope_scaling",
                                              "rope_theta",
                                              "routed_scaling_factor",
                                              "router_aux_loss_coef",
                                              "router_jitter_noise",
                                              "scoring_func",
                                              "shared_expert_intermediate_size",
                                              "sliding_window",
                                              "text_config",
                                              "tie_word_embeddings",
                                              "topk_group",
                                              "topk_method",
                                              "use_cache",
                                              "use_sliding_window",
                                              "v_head_dim",
                                              "vocab_size"};

Keys<S> config_field_keys() {
  Keys<S> keys;
  for (const std::string_view name : config_fields) {
    keys.push_back({std::string(name), [key = std::string(name)](const Scope&, const Node& node, S& model) { model.config[key] = to_json(node); }});
  }
  return keys;
}

Key<S> torch_dtype(std::string name) {
  return {std::move(name), [](const Scope& scope, const Node& node, S& model) {
            if (is_null(node) || (node.is_scalar() && node.text == "auto")) return;
            DType dtype{};
            if (read_compute_dtype(scope, node, dtype)) model.torch_dtype = dtype;
          }};
}

/// `config` as a section: a class with fields, AutoConfig.from_pretrained with a path, or the fields alone.
void read_config_section(const Scope& scope, const Node& node, S& model) {
  const Target* target = read_target(scope, node, TargetKind::ModelConfig);
  if (target && !target->native.empty() && target->native != "auto") model.config["model_type"] = target->native;
  for (const Entry& entry : node.entries) {
    const Scope at = scope.child(entry.key);
    if (entry.key == "_target_" || entry.key == "trust_remote_code" || is_null(entry.value)) continue;
    if (entry.key == "pretrained_model_name_or_path" || entry.key == "name_or_path") {
      read_value(at, entry.value, model.path);
    } else if (entry.key == "torch_dtype" || entry.key == "dtype") {
      if (!model.torch_dtype) torch_dtype(entry.key).read(at, entry.value, model);
    } else if (entry.key == "attn_implementation" || entry.key == "_attn_implementation") {
      check_type(at, entry.value, Type::String);
    } else {
      model.config[entry.key] = to_json(entry.value);
    }
  }
}

Key<S> config_key() {
  return {"config", [](const Scope& scope, const Node& node, S& model) {
            if (is_null(node)) return;
            if (node.is_map()) return read_config_section(scope, node, model);
            read_value(scope, node, model.path);
          }};
}

template <class Enum = int>
Key<ModelBackend> kernel_choice(std::string name, std::initializer_list<std::string_view> names) {
  Choices<int> choices;
  for (const std::string_view option : names) choices.push_back({option, 0});
  return {std::move(name), [choices](const Scope& scope, const Node& node, ModelBackend&) {
            if (!is_null(node)) read_choice(scope, node, choices);
          }};
}

/// float32 or float64: the router's own choice, whichever it names.
Key<ModelBackend> gate_precision() {
  return {"gate_precision", [](const Scope& scope, const Node& node, ModelBackend&) {
            DType dtype{};
            if (is_null(node) || !read_value(scope, node, dtype) || dtype == DType::F32 || dtype == DType::F64) return;
            scope.unsupported(node, shown(scope, node), Support::NotSupported, "the router computes in float64 (float32 where tokens are bfloat16)",
                              "remove the key");
          }};
}

Keys<ModelBackend> backend_keys() {
  using B = ModelBackend;
  constexpr auto no = Support::NotSupported;
  return {
      kernel_choice("attn", {"te", "sdpa", "torch", "flex", "eager", "tilelang", "cudnn", "magi", "ffpa", "flash_attention_2"}),
      kernel_choice("linear", {"torch", "te", "quack"}),
      kernel_choice("rms_norm", {"torch", "torch_fp32", "te", "quack"}),
      kernel_choice("rope", {"torch", "quack"}),
      kernel_choice("experts", {"torch", "te", "gmm", "torch_mm", "torch_mm_mxfp8"}),
      kernel_choice("dispatcher", {"torch", "deepep", "hybridep", "uccl_ep", "mok"}),
      accepted<B>("rope_fusion", Type::Bool),
      accepted<B>("dispatcher_num_sms", Type::Int),
      accepted<B>("dispatcher_share_token_dispatcher", Type::Bool),
      accepted<B>("dispatcher_async_dispatch", Type::Bool),
      accepted<B>("enable_deepep", Type::Bool),
      accepted<B>("enable_hf_state_dict_adapter", Type::Bool),
      accepted<B>("enable_fsdp_optimizations", Type::Bool),
      accepted<B>("compile_attn", Type::Bool),
      accepted<B>("cuda_graph", Type::Any),
      accepted<B>("mok", Type::Map),
      field("fake_balanced_gate", &B::fake_balanced_gate),
      refused<B>("fake_gate_noise", Type::Number, no, "routing has no artificial noise"),
      refused<B>("te_fp8", Type::Any, no, "training in FP8 needs kernels of TransformerEngine"),
      gate_precision(),
      target_key<B>(),
  };
}

Key<S> backend_key() {
  return {
      "backend", [](const Scope& scope, const Node& node, S& model) {
        if (is_null(node)) return;
        read_target(scope, node, TargetKind::ModelBackend);
        read_section(scope, node, backend_keys(), model.backend);
        scope.note(
            "names of kernels choose among upstream's; Tessera has its own for each and uses those (experts: grouped products; dispatcher: a sort "
            "by expert, and all-to-all where ep_size is above 1)");
      }};
}

/// MoEConfig's fields that say what the model computes.
Keys<MoeOverrides> model_mathematics() {
  Keys<MoeOverrides> keys;
  for (const char* const name : {"n_routed_experts",
                                 "n_shared_experts",
                                 "n_activated_experts",
                                 "n_expert_groups",
                                 "n_limited_groups",
                                 "score_func",
                                 "route_scale",
                                 "dim",
                                 "inter_dim",
                                 "moe_inter_dim",
                                 "norm_topk_prob",
                                 "router_bias",
                                 "expert_bias",
                                 "expert_activation",
                                 "apply_router_weight_after_down",
                                 "activation_alpha",
                                 "activation_limit",
                                 "swiglu_limit",
                                 "swiglu_clamp_after_activation",
                                 "softmax_before_topk",
                                 "router_weight_uses_score_correction_bias",
                                 "shared_expert_gate",
                                 "shared_expert_inter_dim",
                                 "shared_expert_activation",
                                 "force_e_score_correction_bias",
                                 "moe_latent_size",
                                 "enable_routing_replay",
                                 "dtype",
                                 "gate_dtype"})
    keys.push_back(refused<MoeOverrides>(name, Type::Any, Support::NotSupported, "what a model computes is said in its config.json"));
  return keys;
}

Keys<MoeOverrides> moe_override_keys() {
  using M = MoeOverrides;
  return Keys<M>{field("aux_loss_coeff", &M::aux_loss_coeff, at_least(0)),
                 choice("aux_loss_scope", &M::aux_loss_by_microbatch, Choices<bool>{{"sequence", false}, {"microbatch", true}}),
                 field("z_loss_coeff", &M::z_loss_coeff, at_least(0)),
                 field("capacity_factor", &M::capacity_factor, above(0)),
                 field("gate_bias_update_factor", &M::gate_bias_update_factor, at_least(0)),
                 field("train_gate", &M::train_gate),
                 always<M>("router_weights_fp32", "weights of experts are always fp32")} +
         model_mathematics();
}

Keys<S> common_model_keys() {
  constexpr auto no = Support::NotSupported;
  return {
      field("pretrained_model_name_or_path", &S::path),
      config_key(),
      torch_dtype("torch_dtype"),
      torch_dtype("dtype"),
      backend_key(),
      section("moe_overrides", &S::moe_overrides, moe_override_keys()),
      // Read by note_further_tokens.
      accepted<S>("mtp_loss_scaling_factor", Type::Number),
      inert<S>("attn_implementation", Type::String, "has no effect: there is one attention, which honours windows, soft caps and documents"),
      accepted<S>("_attn_implementation", Type::String),
      inert<S>("trust_remote_code", Type::Bool, "has no effect: Tessera runs no code that comes with a model"),
      inert<S>("force_hf", Type::Bool, "has no effect: there is one implementation of each model"),
      inert<S>("use_liger_kernel", Type::Bool, "has no effect: Tessera's own kernels are used"),
      inert<S>("use_sdpa_patching", Type::Bool, "has no effect: Tessera's own kernels are used"),
      accepted<S>("sdpa_method", Type::Any),
      accepted<S>("load_base_model", Type::Bool),
      accepted<S>("low_cpu_mem_usage", Type::Bool),
      accepted<S>("local_files_only", Type::Bool),
      refused<S>("revision", Type::String, Support::NotSupportedYet, "a model is read from a directory", {"main"}),
      refused<S>("quantization_config", Type::Any, no, "models train in float32 or bfloat16"),
      refused<S>("load_in_4bit", Type::Bool, no, "models train in float32 or bfloat16"),
      refused<S>("load_in_8bit", Type::Bool, no, "models train in float32 or bfloat16"),
      target_key<S>(),
  };
}

/// build_gpt2_model's defaults are a whole configuration.
Json gpt2_defaults() {
  return {{"model_type", "gpt2"}, {"vocab_size", 50257}, {"n_positions", 2048},   {"n_embd", 768},
          {"n_layer", 12},        {"n_head", 12},        {"bos_token_id", 50256}, {"eos_token_id", 50256}};
}

/// AutoModel takes the coefficient from the configuration that the recipe's fields make, when no override says it.
void take_aux_loss_coefficient(const Scope& scope, const Node& node, S& model) {
  const auto coefficient = model.config.find("router_aux_loss_coef");
  if (model.moe_overrides.aux_loss_coeff || coefficient == model.config.end() || coefficient->is_null()) return;
  if (!coefficient->is_number() || coefficient->get<double>() < 0.0)
    return scope.mistake(node, "router_aux_loss_coef is not a number of at least 0", "it is the coefficient of the balance loss",
                         "use for example 0.001, or leave it out");
  model.moe_overrides.aux_loss_coeff = coefficient->get<double>();
}

/// Said once, whichever keys ask for it.
void note_further_tokens(const Scope& scope, const Node& node, const S& model) {
  const Node* factor = node.find("mtp_loss_scaling_factor");
  const auto layers = model.config.find("num_nextn_predict_layers");
  const bool asked = layers != model.config.end() && layers->is_number() && layers->get<double>() > 0;
  if (asked || (factor && as_double(*factor).value_or(0) > 0)) scope.note("layers that predict further tokens are left out");
}

/// Whether `config` names a configuration that is none of ours, which has been said: nothing more is known of the model then.
bool names_other_config(const Node* config) {
  if (!config || !has_target(*config)) return false;
  const Node& name = *config->find("_target_");
  const Target* target = name.is_scalar() ? find_target(TargetKind::ModelConfig, name.text) : nullptr;
  return !target || target->support != Support::Supported;
}

void require_source(const Scope& scope, const Node& node, const S& model) {
  if (model.source == ModelSource::Pretrained && model.path.empty()) {
    return scope.mistake(node, "pretrained_model_name_or_path is missing", "from_pretrained loads a directory or a hub name",
                         "add pretrained_model_name_or_path");
  }
  if (model.source == ModelSource::Pretrained || !model.path.empty()) return;
  if (model.config.contains("model_type") || model.config.contains("architectures")) return;
  scope.mistake(node, "the configuration names no architecture", "from_config needs a path, or fields with model_type",
                "add config: PATH, or config: with model_type: llama and its sizes");
}

}  // namespace

void read_model(const Scope& scope, const Node& node, Model& section) {
  if (!check_type(scope, node, Type::Map)) return;
  const Target* target = read_target(scope, node, TargetKind::Model);
  if ((!target && has_target(node)) || (target && target->support == Support::NotSupported)) return;
  const Node* config = node.find("config");
  const ModelTarget otherwise = config && !is_null(*config) ? ModelTarget::Config : ModelTarget::Pretrained;
  const auto kind = target ? static_cast<ModelTarget>(target->value) : otherwise;
  section.source = kind == ModelTarget::Pretrained ? ModelSource::Pretrained : ModelSource::Config;
  if (kind == ModelTarget::Gpt2Builder) section.config = gpt2_defaults();
  read_section(scope, node, common_model_keys() + config_field_keys(), section);
  if (names_other_config(config)) {
    section.path.clear();
    section.config = Json::object();
    return;
  }
  if (kind == ModelTarget::Gpt2Builder && section.config.contains("n_ctx")) section.config["n_positions"] = section.config["n_ctx"];
  take_aux_loss_coefficient(scope, node, section);
  note_further_tokens(scope, node, section);
  require_source(scope, node, section);
}

void read_tokenizer(const Scope& scope, const Node& node, Tokenizer& section) {
  using T = Tokenizer;
  if (is_null(node)) return;
  if (node.is_scalar()) {
    read_value(scope, node, section.path);
    return;
  }
  const Target* target = read_target(scope, node, TargetKind::Tokenizer);
  if (target && target->support == Support::NotSupported) return;
  const Keys<T> keys = {
      field("pretrained_model_name_or_path", &T::path),
      field("add_bos_token", &T::add_bos_token),
      field("add_eos_token", &T::add_eos_token),
      accepted<T>("trust_remote_code", Type::Bool),
      accepted<T>("use_fast", Type::Bool),
      accepted<T>("force_default", Type::Bool),
      accepted<T>("force_hf", Type::Bool),
      refused<T>("padding_side", Type::String, Support::NotSupported, "batches are padded on the right", {"right"}),
      refused<T>("truncation_side", Type::String, Support::NotSupported, "samples are cut at their end", {"right"}),
      target_key<T>(),
  };
  read_section(scope, node, keys, section);
}

}  // namespace tessera::config
