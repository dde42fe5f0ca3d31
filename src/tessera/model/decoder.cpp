#include "tessera/model/decoder.h"

#include <ATen/ops/full.h>

#include "tessera/core/error.h"
#include "tessera/core/random.h"
#include "tessera/model/rope_table.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/norm.h"
#include "tessera/ops/residual.h"

namespace tessera::model {
namespace {

/// Which token of which sample each of these is.
std::shared_ptr<const std::vector<ops::TokenNumber>> token_numbers(const Inputs& inputs, const TokenRange& range) {
  const std::int64_t length = inputs.length();
  std::vector<ops::TokenNumber> all;
  for (std::int64_t row = 0; row < inputs.num_rows(); ++row)
    for (std::int64_t place = 0; place < length; ++place) all.push_back({inputs.sample_numbers[static_cast<std::size_t>(row)], place});
  if (!inputs.runs_of_ranks.empty()) {
    const TokenRuns& runs = inputs.runs_of_ranks[static_cast<std::size_t>(inputs.context_rank)];
    for (std::size_t row = 0; row < runs.size(); ++row)
      for (const TokenRun& run : runs[row])
        for (std::int64_t i = 0; i < run.length; ++i)
          all[row * static_cast<std::size_t>(length) + static_cast<std::size_t>(run.place + i)].position = run.position + i;
  }
  return std::make_shared<const std::vector<ops::TokenNumber>>(all.begin() + range.first, all.begin() + range.first + range.count);
}

/// The row of each of these tokens; −1 for padding.
at::Tensor row_of_token(const Inputs& inputs, const TokenRange& range) {
  at::Tensor rows_BT = at::full({inputs.num_rows(), inputs.length()}, -1, at::TensorOptions().dtype(at::kLong));
  const auto fill = [&](std::int64_t row, std::int64_t first, std::int64_t count) { rows_BT[row].narrow(0, first, count).fill_(row); };
  for (std::int64_t row = 0; row < inputs.num_rows(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    if (inputs.runs_of_ranks.empty()) {
      fill(row, 0, inputs.lengths[index]);
    } else {
      for (const TokenRun& run : inputs.runs_of_ranks[static_cast<std::size_t>(inputs.context_rank)][index]) fill(row, run.place, run.length);
    }
  }
  return rows_BT.view({-1}).narrow(0, range.first, range.count);
}

}  // namespace

/// What all layers of one forward pass share.
struct Decoder::Call {
  Inputs inputs;
  std::vector<ops::RopeTable> rope_tables;  ///< one per ModelSpec::ropes
  std::uint64_t dropout_seed;
  std::uint64_t step;
  std::shared_ptr<const std::vector<ops::TokenNumber>> residual_tokens;  ///< those of the residual stream; only for dropout
  at::Tensor row_of_token;                                               ///< RoutingCall::row_N; undefined without experts
  std::shared_ptr<std::vector<at::Tensor>> saved_experts = nullptr;      ///< of every layer, where blocks that run again keep their routing

  std::int64_t num_tokens() const { return inputs.num_rows() * inputs.length(); }
  std::uint64_t dropout_key(std::string_view purpose, std::size_t layer) const {
    return CounterRandom(CounterRandom(dropout_seed, purpose, layer).key(), "dropout", step).key();
  }
  ops::Dropout dropout(double probability, std::string_view purpose, std::size_t layer) const {
    if (probability == 0.0) return {};
    return {probability, dropout_key(purpose, layer), residual_tokens};
  }
};

Decoder::Decoder(const ModelSpec& spec, ParameterStore& store, DecoderOptions options, DecoderSeams seams)
    : spec_(spec), options_(options), angle_type_(store.options().compute_dtype == DType::F64 ? at::kDouble : at::kFloat), seams_(std::move(seams)) {
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
                       .down_bias = in_layer("down.bias"),
                       .sinks = in_layer("sinks"),
                       .latent = find_latent_weights(in_layer),
                       .experts = find_expert_weights(in_layer)});
  }
}

Decoder::~Decoder() = default;

at::Tensor Decoder::logits(const at::Tensor& hidden_RD, std::int64_t num_tokens) const {
  return seams_.projections->logits(hidden_RD, num_tokens, *head_, logits_options());
}

ops::LossSum Decoder::loss(ops::Tape& tape, const ops::Variable& hidden_RD, const at::Tensor& labels_N, double gradient_scale) const {
  return seams_.projections->loss(tape, hidden_RD, *head_, logits_options(), labels_N, gradient_scale);
}

ops::LogitsOptions Decoder::logits_options() const { return {spec_.logits_divisor, spec_.final_soft_cap}; }

Decoder::Hidden Decoder::hidden(ops::Tape& tape, const Inputs& inputs, std::uint64_t step) const {
  return enter_head(tape, run_units(tape, inputs, {0, num_units() - 1}, {}, step));
}

Decoder::Hidden Decoder::enter_head(ops::Tape& tape, const ops::Variable& input) const {
  UnitScope unit(unit_hooks_, tape, num_units() - 1);
  return {norm(tape, input, final_norm_, final_norm_bias_), unit};
}

ops::Variable Decoder::run_units(ops::Tape& tape, const Inputs& inputs, UnitRange units, const ops::Variable& input, std::uint64_t step) const {
  // Blocks that run again in backward outlive this function: they share the call.
  const auto call = std::make_shared<Call>(Call{inputs, {}, options_.dropout_seed, step, nullptr, {}});
  const bool drops = tape.training() && (spec_.residual_dropout > 0.0 || spec_.embedding_dropout > 0.0);
  if (drops) call->residual_tokens = token_numbers(inputs, seams_.projections->residual_tokens(call->num_tokens()));
  if (spec_.experts && tape.training())
    call->row_of_token = row_of_token(inputs, seams_.projections->own_tokens(call->num_tokens())).to(inputs.input_ids_BT.device());
  if (spec_.experts && options_.routing.save_routing) call->saved_experts = std::make_shared<std::vector<at::Tensor>>(blocks_.size());
  if (spec_.position == PositionKind::Rope)
    for (const RopeSpec& rope : spec_.ropes) call->rope_tables.push_back(rope_table(rope, inputs, angle_type_));
  ops::Variable x = input;
  for (int unit = units.first; unit < units.end; ++unit) {
    const auto layer = static_cast<std::size_t>(unit - 1);
    const auto run = [this, layer, call](ops::Tape& inner, const ops::Variable& of) { return block(inner, of, layer, call); };
    UnitScope scope(unit_hooks_, tape, unit);
    x = unit == 0 ? embed(tape, *call) : again(tape, x, run);
    scope.leave();
  }
  return x;
}

std::int64_t Decoder::num_residual_tokens(const Inputs& inputs) const {
  return seams_.projections->residual_tokens(inputs.num_rows() * inputs.length()).count;
}

int Decoder::num_units() const { return static_cast<int>(blocks_.size()) + 2; }

ops::Variable Decoder::again(ops::Tape& tape, const ops::Variable& input,
                             const std::function<ops::Variable(ops::Tape&, const ops::Variable&)>& block) const {
  if (options_.activation_checkpointing != ActivationCheckpointing::Full) return block(tape, input);
  if (seams_.activation_pool == nullptr) return ops::checkpoint(tape, input, block);
  return ops::checkpoint(tape, input, block, *seams_.activation_pool);
}

ops::Variable Decoder::embed(ops::Tape& tape, const Call& call) const {
  ops::Variable x = seams_.projections->embedding(tape, call.inputs.input_ids_BT.reshape({-1}), *embedding_, spec_.embedding_multiplier);
  if (spec_.position == PositionKind::Learned) {
    const at::Tensor positions_N = call.inputs.position_ids_BT.reshape({-1});
    const TokenRange here = seams_.projections->residual_tokens(positions_N.size(0));
    x = ops::add(tape, x, ops::embedding(tape, positions_N.narrow(0, here.first, here.count), *position_embedding_));
  }
  return ops::dropout(tape, x, call.dropout(spec_.embedding_dropout, "embedding", 0));
}

ops::Variable Decoder::norm(ops::Tape& tape, const ops::Variable& input, ops::Parameter* weight, ops::Parameter* bias) const {
  if (spec_.norm == NormKind::Layer) return ops::layer_norm(tape, input, *weight, bias, spec_.norm_eps);
  return ops::rms_norm(tape, input, *weight, {spec_.norm_eps, spec_.norm_weight_offset});
}

ops::Variable Decoder::block(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const std::shared_ptr<const Call>& call) const {
  const ops::Variable attended = ops::residual_add(tape, input, attention_branch(tape, input, layer, call), spec_.residual_multiplier,
                                                   call->dropout(spec_.residual_dropout, "attention output", layer));
  return ops::residual_add(tape, attended, feed_forward_branch(tape, attended, layer, *call), spec_.residual_multiplier,
                           call->dropout(spec_.residual_dropout, "feed-forward output", layer));
}

ops::Variable Decoder::attention_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer,
                                        const std::shared_ptr<const Call>& call) const {
  const Block& block = blocks_[layer];
  const ops::Variable normal = block.attention_norm != nullptr ? norm(tape, input, block.attention_norm, block.attention_norm_bias) : input;
  const ops::Variable attended = spec_.latent_attention ? latent_attention(tape, normal, layer, call) : plain_attention(tape, normal, layer, call);
  const ops::Variable output = seams_.projections->row_linear(tape, attended, *block.output, block.output_bias);
  return block.attention_post_norm != nullptr ? norm(tape, output, block.attention_post_norm, nullptr) : output;
}

ops::Variable Decoder::plain_attention(ops::Tape& tape, const ops::Variable& normal, std::size_t layer,
                                       const std::shared_ptr<const Call>& call) const {
  const Block& block = blocks_[layer];
  const ops::Variable projected =
      seams_.projections->column_linear(tape, normal, call->num_tokens(), *block.query_key_value, block.query_key_value_bias);
  return attention_core(tape, projected, layer, call);
}

ops::Variable Decoder::latent_attention(ops::Tape& tape, const ops::Variable& normal, std::size_t layer,
                                        const std::shared_ptr<const Call>& call) const {
  const auto core = [this, layer, call](ops::Tape& inner, const ops::Variable& input) {
    const ops::HeadViews heads = latent_query_key_value(inner, input, call->num_tokens(), call->inputs.num_rows(), spec_, blocks_[layer].latent,
                                                        call->rope_tables[spec_.layers[layer].rope], *seams_.projections);
    return attend(inner, heads, layer, call);
  };
  return options_.activation_checkpointing == ActivationCheckpointing::Selective ? ops::checkpoint(tape, normal, core) : core(tape, normal);
}

ops::Variable Decoder::attention_core(ops::Tape& tape, const ops::Variable& projected, std::size_t layer,
                                      const std::shared_ptr<const Call>& call) const {
  const bool again = options_.activation_checkpointing == ActivationCheckpointing::Selective;
  if (blocks_[layer].query_norm == nullptr) {
    // Rotated where it lies and turned back in backward: it needs no second run.
    const ops::Variable rotated = rotate(tape, projected, layer, *call);
    const auto core = [this, layer, call](ops::Tape& inner, const ops::Variable& qkv) {
      return attend(inner, split(inner, qkv, *call), layer, call);
    };
    return again ? ops::checkpoint(tape, rotated, core) : core(tape, rotated);
  }
  const auto core = [this, layer, call](ops::Tape& inner, const ops::Variable& qkv) {
    return attend(inner, split(inner, rotate(inner, normalize_heads(inner, qkv, layer), layer, *call), *call), layer, call);
  };
  return again ? ops::checkpoint(tape, projected, core) : core(tape, projected);
}

ops::Variable Decoder::normalize_heads(ops::Tape& tape, const ops::Variable& query_key_value, std::size_t layer) const {
  return seams_.projections->query_key_norm(tape, query_key_value, *blocks_[layer].query_norm, *blocks_[layer].key_norm,
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

ops::HeadViews Decoder::split(ops::Tape& tape, const ops::Variable& query_key_value, const Call& call) const {
  return ops::split_heads(tape, query_key_value, call.inputs.num_rows(), spec_.num_attention_heads, spec_.num_key_value_heads, spec_.head_dim);
}

ops::Variable Decoder::attend(ops::Tape& tape, const ops::HeadViews& heads, std::size_t layer, const std::shared_ptr<const Call>& call) const {
  return (*seams_.attention)(tape, layer, call->inputs, heads.query_BTHC, heads.key_BTKC, heads.value_BTKC, attention_options(layer, call));
}

ops::AttentionOptions Decoder::attention_options(std::size_t layer, const std::shared_ptr<const Call>& call) const {
  return {.scale = spec_.attention_scale * spec_.layers[layer].attention_scale_factor,
          .soft_cap = spec_.attention_soft_cap,
          .sliding_window = spec_.layers[layer].sliding_window,
          .lengths = call->inputs.lengths,
          .document_starts = call->inputs.document_starts,
          .sinks = blocks_[layer].sinks,
          .dropout = spec_.attention_dropout,
          .dropout_key = call->dropout_key("attention", layer),
          .first_head = seams_.first_head,
          .sample_numbers = call->inputs.sample_numbers};
}

ops::Variable Decoder::feed_forward_branch(ops::Tape& tape, const ops::Variable& input, std::size_t layer, const Call& call) const {
  const Block& block = blocks_[layer];
  const ops::Variable normal = block.feed_forward_norm != nullptr ? norm(tape, input, block.feed_forward_norm, block.feed_forward_norm_bias) : input;
  const ops::Variable output =
      spec_.layers[layer].experts ? routed_feed_forward(tape, normal, layer, call) : dense_feed_forward(tape, normal, layer, call.num_tokens());
  return block.feed_forward_post_norm != nullptr ? norm(tape, output, block.feed_forward_post_norm, nullptr) : output;
}

ops::Variable Decoder::routed_feed_forward(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, const Call& call) const {
  const ops::Variable own = seams_.projections->take_own(tape, normal, call.num_tokens());
  const ops::Variable output = expert_feed_forward(tape, own, spec_, blocks_[layer].experts, *seams_.dispatcher,
                                                   {.options = options_.routing,
                                                    .row_N = call.row_of_token,
                                                    .num_rows = call.inputs.num_rows(),
                                                    .gradient_scale = routing_record_ == nullptr ? 0.0 : routing_record_->gradient_scale,
                                                    .record = routing_record_ == nullptr ? nullptr : &routing_record_->layers[layer],
                                                    .sum_over_sequence = seams_.sum_over_sequence,
                                                    .sum_over_microbatch = seams_.sum_over_microbatch,
                                                    .saved_experts = call.saved_experts == nullptr ? nullptr : &(*call.saved_experts)[layer]});
  return seams_.projections->join_own(tape, output, call.num_tokens());
}

ops::Variable Decoder::dense_feed_forward(ops::Tape& tape, const ops::Variable& normal, std::size_t layer, std::int64_t num_tokens) const {
  const Block& block = blocks_[layer];
  const ops::Variable projected = seams_.projections->column_linear(tape, normal, num_tokens, *block.gate_up, block.gate_up_bias);
  const ops::Variable active = spec_.feed_forward == FeedForwardKind::Gated ? ops::gated_activation(tape, projected, spec_.activation)
                                                                            : ops::plain_activation(tape, projected, spec_.activation);
  return seams_.projections->row_linear(tape, active, *block.down, block.down_bias);
}

}  // namespace tessera::model
