#include "tessera/model/parameter_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::model {
namespace {

using Shape = std::vector<std::int64_t>;

/// The first "{}" replaced by a number.
std::string with_number(const std::string& pattern, std::int64_t number) {
  const auto position = pattern.find("{}");
  return position == std::string::npos ? pattern : std::string(pattern).replace(position, 2, std::to_string(number));
}

/// A fused parameter's parts: the checkpoint module that holds them and their rows there.
struct Part {
  std::string module;
  std::int64_t rows;
};

class TableBuilder {
 public:
  explicit TableBuilder(const ModelSpec& spec) : spec_(spec), names_(spec.names) {}

  ParameterTable build() {
    add_embeddings();
    for (layer_ = 0; layer_ < spec_.num_layers(); ++layer_) {
      unit_ = layer_ + 1;
      add_attention();
      add_feed_forward();
    }
    layer_ = -1;
    unit_ = spec_.num_layers() + 1;
    add_norm("final_norm", names_.final_norm, spec_.hidden_size);
    if (!spec_.tie_word_embeddings) add_lookup("head", names_.head, spec_.vocab_size, Role::Head);
    table_.num_units = unit_ + 1;
    table_.tied_head = spec_.tie_word_embeddings;
    if (table_.tied_head) table_.tied_head_tensor = names_.head + ".weight";
    table_.base_prefix = names_.base_prefix;
    for (std::int64_t extra = 0; extra < spec_.num_prediction_layers; ++extra)
      table_.unused_prefixes.push_back(fmt::format("{}layers.{}.", names_.base_prefix, spec_.num_layers() + extra));
    return std::move(table_);
  }

 private:
  void add_embeddings() {
    add_lookup("embedding", names_.embedding, spec_.vocab_size, Role::Embedding);
    if (spec_.position == PositionKind::Learned) {
      add_lookup("position_embedding", names_.position_embedding, spec_.max_position_embeddings, Role::PositionEmbedding);
    }
  }

  void add_attention() {
    if (spec_.norm_placement != NormPlacement::Post) add_norm("attention_norm", names_.attention_norm, spec_.hidden_size);
    spec_.latent_attention ? add_latent_projections(*spec_.latent_attention) : add_projections();
    if (spec_.attention_sinks) {
      ParameterSpec& sinks = add("sinks", {spec_.num_attention_heads}, Role::Sinks);
      sinks.standard_deviation = spec_.initializer_range;
      add_pieces(sinks, {{names_.sinks, spec_.num_attention_heads}}, "", false);
    }
    add_linear("output", {{names_.output, spec_.hidden_size}}, spec_.num_attention_heads * spec_.value_dim(), Role::Output, spec_.output_bias);
    if (spec_.norm_placement != NormPlacement::Pre) add_norm("attention_post_norm", names_.attention_post_norm, spec_.hidden_size);
  }

  void add_projections() {
    const std::int64_t query_rows = spec_.num_attention_heads * spec_.head_dim;
    const std::int64_t key_rows = spec_.num_key_value_heads * spec_.head_dim;
    std::vector<Part> parts = {{names_.query, query_rows}, {names_.key, key_rows}, {names_.value, key_rows}};
    if (!names_.query_key_value.empty()) parts = {{names_.query_key_value, query_rows + 2 * key_rows}};
    add_linear("query_key_value", parts, spec_.hidden_size, Role::QueryKeyValue, spec_.query_key_value_bias);
    if (spec_.query_key_norm != QueryKeyNorm::None) {
      const bool whole = spec_.query_key_norm == QueryKeyNorm::Projection;
      add_norm("query_norm", names_.query_norm, whole ? query_rows : spec_.head_dim);
      add_norm("key_norm", names_.key_norm, whole ? key_rows : spec_.head_dim);
    }
  }

  void add_latent_projections(const LatentAttentionSpec& latent) {
    const std::int64_t heads = spec_.num_attention_heads;
    const bool bias = spec_.query_key_value_bias;
    if (latent.query_rank > 0) {
      add_linear("query_down", {{names_.query_down, latent.query_rank}}, spec_.hidden_size, Role::LatentDown, bias);
      add_norm("query_down_norm", names_.query_down_norm, latent.query_rank);
    }
    const std::int64_t query_width = latent.query_rank > 0 ? latent.query_rank : spec_.hidden_size;
    add_linear("query_up", {{names_.query_up, heads * spec_.head_dim}}, query_width, Role::LatentUp, false);
    add_linear("key_value_down", {{names_.key_value_down, latent.rank + latent.rope_head_dim}}, spec_.hidden_size, Role::LatentDown, bias);
    add_norm("key_value_down_norm", names_.key_value_down_norm, latent.rank);
    add_linear("key_value_up", {{names_.key_value_up, heads * (latent.nope_head_dim + spec_.value_dim())}}, latent.rank, Role::LatentUp, false);
  }

  void add_feed_forward() {
    if (spec_.norm_placement != NormPlacement::Post) add_norm("feed_forward_norm", names_.feed_forward_norm, spec_.hidden_size);
    spec_.layers[static_cast<std::size_t>(layer_)].experts ? add_experts(*spec_.experts) : add_dense();
    if (spec_.norm_placement != NormPlacement::Pre) add_norm("feed_forward_post_norm", names_.feed_forward_post_norm, spec_.hidden_size);
  }

  void add_dense() {
    const std::int64_t width = spec_.intermediate_size;
    if (spec_.feed_forward == FeedForwardKind::Plain) {
      add_linear("up", {{names_.up, width}}, spec_.hidden_size, Role::GateUp, spec_.feed_forward_bias);
    } else {
      std::vector<Part> parts = {{names_.gate, width}, {names_.up, width}};
      if (!names_.gate_up.empty()) parts = {{names_.gate_up, 2 * width}};
      add_linear("gate_up", parts, spec_.hidden_size, Role::GateUp, spec_.feed_forward_bias);
    }
    add_linear("down", {{names_.down, spec_.hidden_size}}, width, Role::Down, spec_.feed_forward_bias);
  }

  void add_experts(const ExpertsSpec& experts) {
    add_linear("router", {{names_.router, experts.num_experts}}, spec_.hidden_size, Role::Router, experts.router_bias);
    if (experts.correction_bias) {
      ParameterSpec& correction = add("correction_bias", {experts.num_experts}, Role::Router);
      correction.bias = correction.buffer = true;
      correction.initialization = Initialization::Zeros;
      add_pieces(correction, {{names_.correction_bias, experts.num_experts}}, "", false);
    }
    const std::int64_t width = experts.intermediate_size;
    if (experts.stacked) {
      add_stacked("experts.gate_up", names_.expert_gate_up, 2 * width, spec_.hidden_size, experts);
      add_stacked("experts.down", names_.expert_down, spec_.hidden_size, width, experts);
    } else {
      add_separate("experts.gate_up", {{names_.expert_gate, width}, {names_.expert_up, width}}, spec_.hidden_size, experts);
      add_separate("experts.down", {{names_.expert_down, spec_.hidden_size}}, width, experts);
    }
    if (experts.shared_intermediate_size > 0) add_shared_expert(experts);
  }

  ParameterSpec& add_of_experts(const std::string& name, std::vector<std::int64_t> shape, const ExpertsSpec& experts) {
    ParameterSpec& parameter = add(name, std::move(shape), Role::Experts);
    parameter.share_of_tokens = static_cast<double>(experts.experts_per_token) / static_cast<double>(experts.num_experts);
    return parameter;
  }

  /// One checkpoint tensor [E, in, out], and biases [E, out].
  void add_stacked(const std::string& name, const std::string& tensor, std::int64_t rows, std::int64_t columns, const ExpertsSpec& experts) {
    ParameterSpec& weight = add_of_experts(name + ".weight", {experts.num_experts, rows, columns}, experts);
    weight.standard_deviation = spec_.initializer_range;
    for (std::int64_t expert = 0; expert < experts.num_experts; ++expert) {
      weight.pieces.push_back({.tensor = with_number(tensor, layer_),
                               .tensor_shape = {experts.num_experts, columns, rows},
                               .offset = {expert, 0, 0},
                               .size = {1, columns, rows},
                               .row = expert * rows,
                               .transposed = true});
    }
    if (!experts.bias) return;
    ParameterSpec& bias = add_of_experts(name + ".bias", {experts.num_experts, rows}, experts);
    bias.bias = true;
    bias.initialization = Initialization::Zeros;
    add_pieces(bias, {{tensor, experts.num_experts}}, "_bias", false);
  }

  /// Checkpoint tensors of each expert; `parts` still have its number open.
  void add_separate(const std::string& name, const std::vector<Part>& parts, std::int64_t columns, const ExpertsSpec& experts) {
    std::int64_t rows = 0;
    std::vector<Part> all;
    for (const Part& part : parts) rows += part.rows;
    for (std::int64_t expert = 0; expert < experts.num_experts; ++expert)
      for (const Part& part : parts) all.push_back({with_number(with_number(part.module, layer_), expert), part.rows});
    ParameterSpec& weight = add_of_experts(name + ".weight", {experts.num_experts, rows, columns}, experts);
    weight.standard_deviation = spec_.initializer_range;
    add_pieces(weight, all, ".weight", false);
  }

  void add_shared_expert(const ExpertsSpec& experts) {
    const std::int64_t width = experts.shared_intermediate_size;
    add_linear("shared.gate_up", {{names_.shared_gate, width}, {names_.shared_up, width}}, spec_.hidden_size, Role::SharedExpert, false);
    add_linear("shared.down", {{names_.shared_down, spec_.hidden_size}}, width, Role::SharedExpert, false);
    if (experts.shared_gate) add_linear("shared_gate", {{names_.shared_expert_gate, 1}}, spec_.hidden_size, Role::SharedExpert, false);
  }

  void add_lookup(const std::string& name, const std::string& module, std::int64_t rows, Role role) {
    ParameterSpec& parameter = add(name + ".weight", {rows, spec_.hidden_size}, role);
    parameter.standard_deviation = spec_.initializer_range;
    add_pieces(parameter, {{module, rows}}, ".weight", false);
  }

  void add_norm(const std::string& name, const std::string& module, std::int64_t size) {
    ParameterSpec& weight = add(name + ".weight", {size}, Role::Norm);
    // A weight that is added to an offset of one starts as zero.
    weight.initialization = spec_.norm_weight_offset == 0.0 ? Initialization::Ones : Initialization::Zeros;
    add_pieces(weight, {{module, size}}, ".weight", false);
    if (spec_.norm == NormKind::Layer) add_bias(name, {{module, size}}, size, Role::Norm);
  }

  void add_linear(const std::string& name, const std::vector<Part>& parts, std::int64_t columns, Role role, bool bias) {
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    ParameterSpec& weight = add(name + ".weight", {rows, columns}, role);
    const bool residual = role == Role::Output || role == Role::Down;
    weight.standard_deviation = spec_.initializer_range;
    if (residual && spec_.scale_residual_initialization) weight.standard_deviation /= std::sqrt(2.0 * static_cast<double>(spec_.num_layers()));
    add_pieces(weight, parts, ".weight", names_.transposed);
    if (bias) add_bias(name, parts, rows, role);
  }

  void add_bias(const std::string& name, const std::vector<Part>& parts, std::int64_t rows, Role role) {
    ParameterSpec& bias = add(name + ".bias", {rows}, role);
    bias.bias = true;
    bias.initialization = Initialization::Zeros;
    add_pieces(bias, parts, ".bias", false);
  }

  ParameterSpec& add(const std::string& name, Shape shape, Role role) {
    ParameterSpec parameter;
    parameter.name = layer_ < 0 ? name : "layers." + std::to_string(layer_) + "." + name;
    parameter.shape = std::move(shape);
    parameter.role = role;
    parameter.unit = unit_;
    parameter.layer = layer_;
    table_.parameters.push_back(std::move(parameter));
    return table_.parameters.back();
  }

  void add_pieces(ParameterSpec& parameter, const std::vector<Part>& parts, const std::string& suffix, bool transposed) const {
    std::int64_t row = 0;
    for (const Part& part : parts) {
      Piece piece;
      piece.tensor = with_number(part.module, layer_) + suffix;
      piece.tensor_shape = {part.rows};
      if (parameter.shape.size() > 1) piece.tensor_shape.push_back(parameter.shape.back());
      if (transposed) std::swap(piece.tensor_shape[0], piece.tensor_shape[1]);
      piece.offset.assign(piece.tensor_shape.size(), 0);
      piece.size = piece.tensor_shape;
      piece.row = row;
      piece.transposed = transposed;
      row += part.rows;
      parameter.pieces.push_back(std::move(piece));
    }
  }

  const ModelSpec& spec_;
  const TensorNames& names_;
  ParameterTable table_;
  std::int64_t layer_ = -1;
  std::int64_t unit_ = 0;
};

}  // namespace

std::size_t Piece::row_dim() const { return transposed ? size.size() - 1 : std::max<std::size_t>(2, size.size()) - 2; }

std::size_t Piece::column_dim() const { return transposed ? size.size() - 2 : size.size() - 1; }

std::int64_t Piece::num_rows() const { return size[row_dim()]; }

std::int64_t Piece::num_columns() const { return size.size() == 1 ? 1 : size[column_dim()]; }

Piece rows_of(const Piece& piece, std::int64_t first, std::int64_t count) {
  Piece part = piece;
  const std::size_t dim = piece.row_dim();
  part.offset[dim] += first - piece.row;
  part.size[dim] = count;
  part.row = first;
  return part;
}

Piece columns_of(const Piece& piece, std::int64_t first, std::int64_t count) {
  Piece part = piece;
  const std::size_t dim = piece.column_dim();
  part.offset[dim] += first;
  part.size[dim] = count;
  return part;
}

std::int64_t ParameterSpec::num_elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t ParameterTable::num_elements() const {
  std::int64_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.num_elements();
  return sum;
}

const ParameterSpec& ParameterTable::find(const std::string& name) const {
  const auto found = std::ranges::find(parameters, name, &ParameterSpec::name);
  TESSERA_ASSERT(found != parameters.end(), "no parameter of this name in the table");
  return *found;
}

ParameterTable parameter_table(const ModelSpec& spec) { return TableBuilder(spec).build(); }

}  // namespace tessera::model
