#include "tessera/model/decoder.h"

#include "tessera/core/error.h"
#include "tessera/core/random.h"
#include "tessera/model/rope_table.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/norm.h"
#include "tessera/ops/residual.h"

namespace tessera::model {
namespace {

ops::Activation to_ops(Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return ops::Activation::Silu;
    case Activation::GeluTanh:
      return ops::Activation::GeluTanh;
    case Activation::GeluErf:
      return ops::Activation::GeluErf;
    case Activation::Relu:
      return ops::Activation::Relu;
  }
  TESSERA_ASSERT(false, "no such activation");
}

}  // namespace

/// What all layers of one forward pass share.
struct Decoder::Call {
  Inputs inputs;
  std::vector<ops::RopeTable> rope_tables;  ///< one per ModelSpec::ropes
  std::uint64_t dropout_seed;
  std::uint64_t step;

  std::uint64_t dropout_key(std::string_view purpose, std::size_t layer) const {
    return CounterRandom(CounterRandom(dropout_seed, purpose, layer).key(), "dropout", step).key();
  }
  ops::Dropout dropout(double probability, std::string_view purpose, std::size_t layer) const {
    if (probability == 0.0) return {};
    return {probability, dropout_key(purpose, layer), inputs.sample_numbers};
  }
};

Decoder::Decoder(const ModelSpec& spec, ParameterStore& store, DecoderOptions options, std::unique_ptr<Attention> attention)
    : spec_(spec),
      options_(options),
      angle_type_(store.options().compute_dtype == DType::F64 ? at::kDouble : at::kFloat),
      attention_(std::move(attention)) {
  const auto find = [&](const std::string& name) { return store.contains(name) ? &store.parameter(name) : nullptr; };
  embedding_ = find("embedding.weight");
  position_embedding_ = find("position_embedding.weight");
  final_norm_ = find("final_norm.weight");
  final_norm_bias_ = find("final_norm.bias");
  head_ = store.table().tied_head ? embedding_ : find("head.weight");
  const std::string first = spec_.feed_forward == FeedForwardKind::Gated ? "gate_up" : "up";
  for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const auto in_layer = [&](const std::string& name) { return find("layers." + std::to_string(layer) + "." + name); };
    blocks_.push_back({.attention_norm = in_layer("attention_norm.weight"),
                       .attention_norm_bias = in_layer("attention_norm.bias"),
                       .attention_post_norm = in_layer("attention_post_norm.weight"),
                       .query_key_value = in_layer("query_key_value.weight"),
                       .query_key_value_bias = in_layer("query_key_value.bias"),
                       .query_norm = in_layer("query_norm.weight"),
                       .key_norm = in_layer("key_norm.weight"),
                       .output = in_layer("output.weight"),
                       .output_bias = in_layer("output.bias"),
                       .feed_forward_norm = in_layer("feed_forward_norm.weight"),
                       .feed_forward_norm_bias = in_layer("feed_forward_norm.bias"),
                       .feed_forward_post_norm = in_layer("feed_forward_post_norm.weight"),
                       .gate_up = in_layer(first + ".weight"),
                       .gate_up_bias = in_layer(first + ".bias"),
                       .down = in_layer("down.weight"),
                       .down_bias = in_layer("down.bias")});
  }
}

Decoder::~Decoder() = default;

HeadView Decoder::head() const { return {head_, {spec_.logits_divisor, spec_.final_soft_cap}}; }

at::Tensor Decoder::logits(const at::Tensor& hidden_ND) const { return ops::logits(hidden_ND, *head_, head().options); }

Decoder::Hidden Decoder::hidden(ops::Tape& tape, const Inputs& inputs, std::uint64_t step) const {
  // Blocks that run again in backward outlive this function: they share the call.
  const auto call = std::make_shared<Call>(Call{inputs, {}, options_.dropout_seed, step});
  if (spec_.position == PositionKind::Rope)
    for (const RopeSpec& rope : spec_.ropes) call->rope_tables.push_back(rope_table(rope, inputs, angle_type_));
  UnitScope embedding_unit(unit_hooks_, tape, 0);
  ops::Variable x = embed(tape, *call);
  embedding_unit.leave();
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const auto run = [this, layer, call](ops::Tape& inner, const ops::Variable& input) { return block(inner, input, layer, call); };
    UnitScope unit(unit_hooks_, tape, static_cast<std::int64_t>(layer) + 1);
    x = options_.activation_checkpointing == ActivationCheckpointing::Full ? ops::checkpoint(tape, x, run) : run(tape, x);
    unit.leave();
  }
  UnitScope head_unit(unit_hooks_, tape, static_cast<std::int64_t>(blocks_.size()) + 1);
  return {norm(tape, x, final_norm_, final_norm_bias_), head_unit};
}

ops::Variable Decoder::embed(ops::Tape& tape, const Call& call) const {
  ops::Variable x = ops::embedding(tape, call.inputs.input_ids_BT.reshape({-1}), *embedding_, spec_.embedding_multiplier);
  if (spec_.position == PositionKind::Learned)
    x = ops::add(tape, x, ops::embedding(tape, call.inputs.position_ids_BT.reshape({-1}), *position_embedding_));
  return ops::dropout(tape, x, call.dropout(spec_.embedding_dropout, "embedding", 0));
}

ops::Variable Decoder::norm(ops::Tape& tape, const ops::Variable& input, ops::Parameter* weight, ops::Parameter* bias) const {
  if (spec_.norm == NormKind::Layer) return ops::layer_norm(tape, input, *weight, bias, spec_.norm_eps);
  return ops::rms_norm(tape, input, *weight, {spec_.norm_eps, spec_.norm_weight_offset});
}

ops::Variable Decoder::block(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const std::shared_ptr<const Call>& call) const {
  const ops::Variable attended = ops::residual_add(tape, input, attention_branch(tape, input, layer, call), spec_.residual_multiplier,
                                                   call->dropout(spec_.residual_dropout, "attention output", layer));
  return ops::residual_add(tape, attended, feed_forward_branch(tape, attended, layer), spec_.residual_multiplier,
                           call->dropout(spec_.residual_dropout, "feed-forward output", layer));
}

ops::Variable Decoder::attention_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer,
                                        const std::shared_ptr<const Call>& call) const {
  const Block& block = blocks_[layer];
  const ops::Variable normal = block.attention_norm != nullptr ? norm(tape, input, block.attention_norm, block.attention_norm_bias) : input;
  const ops::Variable projected = ops::linear(tape, normal, *block.query_key_value, block.query_key_value_bias);
  const ops::Variable attended = attention_core(tape, projected, layer, call);
  const ops::Variable output = ops::linear(tape, attended, *block.output, block.output_bias);
  return block.attention_post_norm != nullptr ? norm(tape, output, block.attention_post_norm, nullptr) : output;
}

ops::Variable Decoder::attention_core(ops::Tape& tape, const ops::Variable& projected, std::size_t layer,
                                      const std::shared_ptr<const Call>& call) const {
  const bool again = options_.activation_checkpointing == ActivationCheckpointing::Selective;
  if (blocks_[layer].query_norm == nullptr) {
    // Rotated where it lies and turned back in backward: it needs no second run.
    const ops::Variable rotated = rotate(tape, projected, layer, *call);
    const auto core = [this, layer, call](ops::Tape& inner, const ops::Variable& qkv) { return attend(inner, qkv, layer, call); };
    return again ? ops::checkpoint(tape, rotated, core) : core(tape, rotated);
  }
  const auto core = [this, layer, call](ops::Tape& inner, const ops::Variable& qkv) {
    return attend(inner, rotate(inner, normalize_heads(inner, qkv, layer), layer, *call), layer, call);
  };
  return again ? ops::checkpoint(tape, projected, core) : core(tape, projected);
}

ops::Variable Decoder::normalize_heads(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer) const {
  return ops::query_key_norm(tape, query_key_value, *blocks_[layer].query_norm, *blocks_[layer].key_norm,
                             {.num_heads = spec_.num_attention_heads,
                              .num_key_value_heads = spec_.num_key_value_heads,
                              .head_dim = spec_.head_dim,
                              .per_head = spec_.query_key_norm == QueryKeyNorm::Head,
                              .norm = {spec_.norm_eps, spec_.norm_weight_offset}});
}

ops::Variable Decoder::rotate(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer, const Call& call) const {
  if (spec_.position != PositionKind::Rope) return query_key_value;
  return ops::rotate_in_place(tape, query_key_value, call.rope_tables[spec_.layers[layer].rope],
                              spec_.num_attention_heads + spec_.num_key_value_heads, spec_.head_dim);
}

ops::Variable Decoder::attend(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer,
                              const std::shared_ptr<const Call>& call) const {
  const ops::HeadViews heads =
      ops::split_heads(tape, query_key_value, call->inputs.num_rows(), spec_.num_attention_heads, spec_.num_key_value_heads, spec_.head_dim);
  return (*attention_)(tape, layer, heads.query_BTHC, heads.key_BTKC, heads.value_BTKC, attention_options(layer, call));
}

ops::AttentionOptions Decoder::attention_options(std::size_t layer, const std::shared_ptr<const Call>& call) const {
  return {.scale = spec_.attention_scale * spec_.layers[layer].attention_scale_factor,
          .soft_cap = spec_.attention_soft_cap,
          .sliding_window = spec_.layers[layer].sliding_window,
          .lengths = call->inputs.lengths,
          .document_starts = call->inputs.document_starts,
          .dropout = spec_.attention_dropout,
          .dropout_key = call->dropout_key("attention", layer),
          .sample_numbers = call->inputs.sample_numbers};
}

ops::Variable Decoder::feed_forward_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer) const {
  const Block& block = blocks_[layer];
  const ops::Variable normal = block.feed_forward_norm != nullptr ? norm(tape, input, block.feed_forward_norm, block.feed_forward_norm_bias) : input;
  const ops::Variable projected = ops::linear(tape, normal, *block.gate_up, block.gate_up_bias);
  const ops::Activation activation = to_ops(spec_.activation);
  const ops::Variable active = spec_.feed_forward == FeedForwardKind::Gated ? ops::gated_activation(tape, projected, activation)
                                                                            : ops::plain_activation(tape, projected, activation);
  const ops::Variable output = ops::linear(tape, active, *block.down, block.down_bias);
  return block.feed_forward_post_norm != nullptr ? norm(tape, output, block.feed_forward_post_norm, nullptr) : output;
}

}  // namespace tessera::model
