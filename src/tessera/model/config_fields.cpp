#include "tessera/model/config_fields.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera::model {
namespace {

/// The one list of fields that do not change what a decoder computes.
constexpr std::array kInertFields = std::to_array<std::string_view>({
    // Bookkeeping
    "_name_or_path",
    "architectures",
    "auto_map",
    "model_type",
    "transformers_version",
    "transformers.js_config",
    "tokenizer_class",
    "torchscript",
    "unsloth_fixed",
    "unsloth_version",
    "is_llama_config",
    "_commit_hash",
    "name_or_path",
    "license",
    "language",
    "tie_encoder_decoder",
    "model_max_length",
    "tokenizer_model_max_length",
    "tokenizer_padding_side",
    "use_liger_kernel",
    "vocab_type",
    "generation_config",
    // How transformers runs the model
    "use_cache",
    "cache_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "_experts_implementation",
    "attn_impl",
    "return_dict",
    "return_dict_in_generate",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "torch_dtype",
    "dtype",
    "use_bfloat16",
    "tf_legacy_loss",
    "gradient_checkpointing",
    "chunk_size_feed_forward",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "use_return_dict",
    "fused_dense",
    "flash_attn",
    "flash_rotary",
    "num_logits_to_keep",
    "logits_to_keep",
    "is_decoder",
    // Sizes that follow from others
    "n_ctx",
    "_sliding_window_pattern",
    "max_window_layers",
    // Other tasks and generation
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "classifier_dropout",
    "hidden_dropout_prob",
    "task_specific_params",
    "problem_type",
    "finetuning_task",
    "id2label",
    "label2id",
    "num_labels",
    "prefix",
    "sep_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "unk_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
});

/// Fields that would change the mathematics if they had another value than this.
struct NeutralField {
  std::string_view key;
  double neutral;  ///< as a number; false is 0
};
constexpr std::array kNeutralFields = std::to_array<NeutralField>({
    {"full_attn_mod", 1},
    {"interpolate_factor", 1},
    {"partial_rotary_factor", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"add_cross_attention", 0},
    {"attention_bias", 0},
    {"attn_logit_softcapping", 0},
    {"cross_attention_hidden_size", 0},
    {"final_logit_softcapping", 0},
    {"is_encoder_decoder", 0},
    {"lm_head_bias", 0},
    {"mlp_bias", 0},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"pruned_heads", 0},
    {"rope_interleave", 0},
    {"rope_interleaved", 0},
    {"use_bidirectional_attention", 0},
});

/// null, false, 0, "" and empty containers switch a feature off.
bool is_off(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0.0;
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

}  // namespace

FieldMeaning meaning_of_unread_field(const std::string& key, const Json& value) {
  if (std::ranges::find(kInertFields, key) != kInertFields.end()) return FieldMeaning::Inert;
  if (is_off(value)) return FieldMeaning::Off;
  const auto neutral = std::ranges::find(kNeutralFields, key, &NeutralField::key);
  if (neutral == kNeutralFields.end()) return FieldMeaning::Unknown;
  return value.is_number() && value.get<double>() == neutral->neutral ? FieldMeaning::Off : FieldMeaning::Refused;
}

}  // namespace tessera::model
