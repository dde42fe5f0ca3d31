#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/config/sections/distributed.h"
#include "tessera/model/expert_feed_forward.h"
#include "tessera/model/inputs.h"
#include "tessera/model/latent_attention.h"
#include "tessera/model/parameter_store.h"
#include "tessera/model/routing.h"
#include "tessera/model/seams.h"
#include "tessera/model/spec.h"
#include "tessera/ops/activation_pool.h"
#include "tessera/ops/linear_cross_entropy.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

/// Full: a block keeps only its input and runs again in backward. Selective: the attention core (norms of queries and keys, softmax; with latent
/// attention the projections before it too) runs again, only the outputs of matrix products are kept. None still recomputes the other norms and
/// activations, which cost next to nothing.
using config::ActivationCheckpointing;

struct DecoderOptions {
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::None;
  RoutingOptions routing = {};
  std::uint64_t dropout_seed = 0;  ///< masks are a function of (dropout_seed, step, layer, sample, position, element)
};

/// The decoder's seams: what stands behind them decides how the work is split.
struct DecoderSeams {
  std::unique_ptr<Attention> attention = local_attention();
  std::unique_ptr<Projections> projections = local_projections();
  std::unique_ptr<Dispatcher> dispatcher = local_dispatcher();
  SumOverRanks sum_over_sequence = nullptr;    ///< over the ranks that share rows (cp, tp); null: rows are whole
  SumOverRanks sum_over_microbatch = nullptr;  ///< over all ranks with tokens of their own
  std::int64_t first_head = 0;                 ///< number of this rank's first query head in the whole model
  /// Where the inputs of blocks that run again wait (ActivationCheckpointing::Full); null: where they are.
  std::unique_ptr<ops::ActivationPool> activation_pool = nullptr;
};

/// Every decoder-only model Tessera knows, driven by its ModelSpec. Single-process code: whatever splits the work stands behind the seams.
/// Holds pointers into `store`, which must outlive it. Numbers of heads in `spec` are those of the store's parameters. Of units whose weights the
/// store does not have, none may be run.
class Decoder {
 public:
  Decoder(const ModelSpec& spec, ParameterStore& store, DecoderOptions options = {}, DecoderSeams seams = {});
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// The hidden states after the final norm, [R, D] in the compute dtype (R: seams.h; all B·T tokens in one process). `step` only feeds dropout,
  /// which happens only when the tape trains.
  ///
  /// The head's unit is entered and handed out: its scope must be left after the head's last use (loss or logits).
  struct Hidden {
    ops::Variable states;
    UnitScope head_unit;
  };
  Hidden hidden(ops::Tape& tape, const Inputs& inputs, std::uint64_t step = 0) const;
  /// The same in parts, for ranks that have some of the units only: first units [first, end) of the embedding (0) and the blocks (1 … L), `input`
  /// being what unit first − 1 gave (nothing for the embedding); then, after the last block, the head's unit.
  ops::Variable run_units(ops::Tape& tape, const Inputs& inputs, UnitRange units, const ops::Variable& input, std::uint64_t step = 0) const;
  Hidden enter_head(ops::Tape& tape, const ops::Variable& input) const;
  /// Logits [N, V] in fp32 (fp64 for reference runs) of the hidden states of N tokens; not recorded. Inside the head's unit.
  at::Tensor logits(const at::Tensor& hidden_RD, std::int64_t num_tokens) const;
  /// The cross-entropy of the head's logits, as ops::linear_cross_entropy. Inside the head's unit.
  ops::LossSum loss(ops::Tape& tape, const ops::Variable& hidden_RD, const at::Tensor& labels_N, double gradient_scale) const;
  /// How many tokens of a microbatch's residual stream are here: R.
  std::int64_t num_residual_tokens(const Inputs& inputs) const;
  const ModelSpec& spec() const { return spec_; }
  const DecoderOptions& options() const { return options_; }
  /// What is notified when units begin and end (null: nothing). Must outlive every pass.
  void set_unit_hooks(UnitHooks* hooks) { unit_hooks_ = hooks; }
  /// Where recorded passes count what experts are given, and how auxiliary losses are scaled (null: neither). Must outlive every pass.
  void set_routing_record(RoutingRecord* record) { routing_record_ = record; }

 private:
  /// The weights of one block; null where the family has none, or the store.
  struct Block {
    ops::Parameter *attention_norm, *attention_norm_bias, *attention_post_norm;
    ops::Parameter *query_key_value, *query_key_value_bias, *query_norm, *key_norm, *output, *output_bias;
    ops::Parameter *feed_forward_norm, *feed_forward_norm_bias, *feed_forward_post_norm;
    ops::Parameter *gate_up, *gate_up_bias, *down, *down_bias;  ///< gate_up is `up` alone in a plain feed-forward
    ops::Parameter* sinks;
    LatentWeights latent;
    ExpertWeights experts;
  };
  struct Call;

  int num_units() const;
  ops::Variable embed(ops::Tape& tape, const Call& call) const;
  /// The block, recorded as activation checkpointing says.
  ops::Variable again(ops::Tape& tape, const ops::Variable& input, const std::function<ops::Variable(ops::Tape&, const ops::Variable&)>& block) const;
  ops::Variable norm(ops::Tape& tape, const ops::Variable& input, ops::Parameter* weight, ops::Parameter* bias) const;
  ops::Variable block(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable normalize_heads(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer) const;
  ops::Variable rotate(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer, const Call& call) const;
  ops::HeadViews split(ops::Tape& tape, const ops::Variable& query_key_value, const Call& call) const;
  ops::Variable attend(ops::Tape& tape, const ops::HeadViews& heads, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable plain_attention(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable latent_attention(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable attention_core(ops::Tape& tape, const ops::Variable& projected, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable attention_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const std::shared_ptr<const Call>& call) const;
  ops::Variable feed_forward_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const Call& call) const;
  ops::Variable routed_feed_forward(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, const Call& call) const;
  ops::Variable dense_feed_forward(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, std::int64_t num_tokens) const;
  ops::LogitsOptions logits_options() const;
  ops::AttentionOptions attention_options(std::size_t layer, const std::shared_ptr<const Call>& call) const;

  ModelSpec spec_;
  DecoderOptions options_;
  at::ScalarType angle_type_;
  DecoderSeams seams_;
  UnitHooks* unit_hooks_ = nullptr;
  RoutingRecord* routing_record_ = nullptr;
  std::vector<Block> blocks_;
  ops::Parameter* embedding_ = nullptr;
  ops::Parameter* position_embedding_ = nullptr;
  ops::Parameter* final_norm_ = nullptr;
  ops::Parameter* final_norm_bias_ = nullptr;
  ops::Parameter* head_ = nullptr;
};

}  // namespace tessera::model
