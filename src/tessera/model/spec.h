#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/ops/cpu/activations.h"
#include "tessera/ops/router_scoring.h"

namespace tessera::model {

using ops::RouterScoring;
using ops::cpu::Activation;

enum class NormKind { Rms, Layer };
/// Where a block normalises: before attention and feed-forward (llama), after them on the branch (olmo2), or both (gemma2).
enum class NormPlacement { Pre, Post, Sandwich };
/// Normalisation of queries and keys: none, over each head (qwen3, gemma3), or over the whole projection (olmo2).
enum class QueryKeyNorm { None, Head, Projection };
enum class FeedForwardKind { Gated, Plain };
enum class PositionKind { Rope, Learned };
/// How rotary frequencies are scaled; the names are Hugging Face's rope_type.
enum class RopeKind { Default, Linear, Dynamic, Yarn, Longrope, Llama3 };

/// One set of rotary frequencies (gemma3 has two: one for sliding, one for full attention).
struct RopeSpec {
  RopeKind kind = RopeKind::Default;
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t rotary_dim = 0;  ///< rotated leading dims of each head, even
  std::int64_t max_position_embeddings = 0;
  std::int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1.0;            ///< llama3
  double high_freq_factor = 4.0;           ///< llama3
  double beta_fast = 32.0;                 ///< yarn
  double beta_slow = 1.0;                  ///< yarn
  bool truncate = true;                    ///< yarn: round the correction range to whole dims
  std::optional<double> attention_factor;  ///< yarn, longrope: multiplies cos and sin; derived from factor when absent
  std::optional<double> mscale;            ///< yarn
  std::optional<double> mscale_all_dim;    ///< yarn
  std::vector<double> short_factor;        ///< longrope
  std::vector<double> long_factor;         ///< longrope
};

/// A feed-forward of many, of which a router picks a few for each token.
struct ExpertsSpec {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;         ///< of one expert
  std::int64_t shared_intermediate_size = 0;  ///< of the expert that sees every token; 0: there is none
  bool shared_gate = false;                   ///< its output is multiplied by a sigmoid of one linear output of the token (qwen2_moe)
  RouterScoring scoring = RouterScoring::SoftmaxThenTopK;
  bool normalize = false;             ///< weights of a token sum to 1, before `scale`
  double scale = 1.0;                 ///< multiplies the weights
  std::int64_t num_groups = 1;        ///< experts lie in equal groups …
  std::int64_t groups_per_token = 1;  ///< … and a token's experts come from this many of the best groups
  bool correction_bias = false;       ///< a buffer that is added to scores for the choice alone
  bool router_bias = false;
  bool bias = false;              ///< of the experts' projections
  std::optional<double> limit;    ///< gpt_oss: gate and up are clamped by it, gate · sigmoid(alpha · gate) · (up + 1)
  double alpha = 1.0;             ///< of a limited activation
  bool stacked = false;           ///< the checkpoint stacks experts, [E, in, out]
  bool interleaved_gate = false;  ///< rows of gate_up alternate: gate, up, gate, up
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come from one small latent vector, positions from one
/// rotated key that all heads share. ModelSpec::head_dim is nope_head_dim + rope_head_dim.
struct LatentAttentionSpec {
  std::int64_t query_rank = 0;  ///< of the queries' latent vector; 0: queries are projected directly
  std::int64_t rank = 0;        ///< of the keys' and values' latent vector
  std::int64_t nope_head_dim = 0;
  std::int64_t rope_head_dim = 0;
  double norm_eps = 1e-6;        ///< of the latent vectors' norms
  bool interleaved_rope = true;  ///< a rotated pair is (2i, 2i + 1) in the checkpoint, not (i, i + rope_head_dim / 2)
};

/// One layer. Only what may differ between layers is here.
struct LayerSpec {
  std::optional<std::int64_t> sliding_window;  ///< a query sees itself and this many − 1 earlier positions
  std::size_t rope = 0;                        ///< index into ModelSpec::ropes
  double attention_scale_factor = 1.0;         ///< multiplies ModelSpec::attention_scale
  bool experts = false;                        ///< the feed-forward is ModelSpec::experts
};

/// How a family names its modules in a Hugging Face checkpoint ("model.layers.{}.self_attn.q_proj"); "{}" stands for the layer number, and
/// ".weight" or ".bias" follows. Fields left empty do not exist in the family.
struct TensorNames {
  std::string base_prefix;  ///< "model.": checkpoints of the bare model lack it
  std::string embedding, position_embedding, final_norm, head;
  std::string attention_norm, feed_forward_norm;            ///< before attention / feed-forward (Pre, Sandwich)
  std::string attention_post_norm, feed_forward_post_norm;  ///< after them (Post, Sandwich)
  std::string query, key, value;                            ///< separate projections …
  std::string query_key_value;                              ///< … or one fused tensor [q rows, k rows, v rows]
  std::string query_norm, key_norm;
  std::string output;
  std::string gate, up, gate_up;  ///< separate or fused [gate rows, up rows]; Plain uses `up` only
  std::string down;
  std::string query_down, query_down_norm, query_up, key_value_down, key_value_down_norm, key_value_up;  ///< latent attention
  std::string sinks;                                                                                     ///< a tensor, without ".weight"
  std::string router;
  std::string correction_bias;  ///< a tensor, without ".weight"
  /// Of one expert, whose number is a second "{}"; or of all (gate_up and down alone) where the checkpoint stacks them: tensors, with "_bias" for
  /// biases.
  std::string expert_gate, expert_up, expert_gate_up, expert_down;
  std::string shared_gate, shared_up, shared_down;
  std::string shared_expert_gate;  ///< [1, hidden]
  bool transposed = false;         ///< linear weights are stored [in, out] (gpt2's Conv1D)
};

/// A decoder-only language model as plain data: everything the parameter table and the Decoder need, nothing they don't.
/// Names follow Hugging Face's config.json.
struct ModelSpec {
  std::string model_type;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;        ///< of queries and keys
  std::int64_t value_head_dim = 0;  ///< of values; 0: head_dim
  std::int64_t max_position_embeddings = 0;
  std::vector<LayerSpec> layers;
  std::int64_t num_prediction_layers =
      0;  ///< layers after the last one that predict further tokens: checkpoints hold them, nothing here computes them

  PositionKind position = PositionKind::Rope;
  std::vector<RopeSpec> ropes;

  NormKind norm = NormKind::Rms;
  NormPlacement norm_placement = NormPlacement::Pre;
  double norm_eps = 1e-6;
  double norm_weight_offset = 0.0;  ///< gemma multiplies by 1 + weight
  QueryKeyNorm query_key_norm = QueryKeyNorm::None;

  double attention_scale = 0.0;  ///< multiplies q·k; 1/sqrt(head_dim) unless the family says otherwise
  std::optional<double> attention_soft_cap;
  bool attention_sinks = false;  ///< the softmax goes over one more logit, of each head, that has no value
  std::optional<LatentAttentionSpec> latent_attention;
  std::optional<double> final_soft_cap;
  FeedForwardKind feed_forward = FeedForwardKind::Gated;
  Activation activation = Activation::Silu;
  std::optional<ExpertsSpec> experts;

  bool query_key_value_bias = false;
  bool output_bias = false;
  bool feed_forward_bias = false;
  bool tie_word_embeddings = false;

  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;
  double logits_divisor = 1.0;

  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  double embedding_dropout = 0.0;

  double initializer_range = 0.02;
  bool scale_residual_initialization = false;  ///< gpt2: output projections start with range / sqrt(2 · layers)
  DType dtype = DType::F32;                    ///< as the checkpoint says
  std::optional<std::int64_t> bos_token_id, pad_token_id;
  std::vector<std::int64_t> eos_token_ids;
  TensorNames names;

  std::int64_t value_dim() const { return value_head_dim == 0 ? head_dim : value_head_dim; }
  std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }
};

}  // namespace tessera::model
