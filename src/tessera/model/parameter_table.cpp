#include "tessera/model/parameter_table.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::model {
namespace {

using Shape = std::vector<std::int64_t>;

std::string with_layer(const std::string& pattern, std::int64_t layer) {
  const auto position = pattern.find("{}");
  return position == std::string::npos ? pattern : std::string(pattern).replace(position, 2, std::to_string(layer));
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
    const std::int64_t query_rows = spec_.num_attention_heads * spec_.head_dim;
    const std::int64_t key_rows = spec_.num_key_value_heads * spec_.head_dim;
    if (spec_.norm_placement != NormPlacement::Post) add_norm("attention_norm", names_.attention_norm, spec_.hidden_size);
    std::vector<Part> parts = {{names_.query, query_rows}, {names_.key, key_rows}, {names_.value, key_rows}};
    if (!names_.query_key_value.empty()) parts = {{names_.query_key_value, query_rows + 2 * key_rows}};
    add_linear("query_key_value", parts, spec_.hidden_size, Role::QueryKeyValue, spec_.query_key_value_bias);
    if (spec_.query_key_norm != QueryKeyNorm::None) {
      const bool whole = spec_.query_key_norm == QueryKeyNorm::Projection;
      add_norm("query_norm", names_.query_norm, whole ? query_rows : spec_.head_dim);
      add_norm("key_norm", names_.key_norm, whole ? key_rows : spec_.head_dim);
    }
    add_linear("output", {{names_.output, spec_.hidden_size}}, query_rows, Role::Output, spec_.output_bias);
    if (spec_.norm_placement != NormPlacement::Pre) add_norm("attention_post_norm", names_.attention_post_norm, spec_.hidden_size);
  }

  void add_feed_forward() {
    const std::int64_t width = spec_.intermediate_size;
    if (spec_.norm_placement != NormPlacement::Post) add_norm("feed_forward_norm", names_.feed_forward_norm, spec_.hidden_size);
    if (spec_.feed_forward == FeedForwardKind::Plain) {
      add_linear("up", {{names_.up, width}}, spec_.hidden_size, Role::GateUp, spec_.feed_forward_bias);
    } else {
      std::vector<Part> parts = {{names_.gate, width}, {names_.up, width}};
      if (!names_.gate_up.empty()) parts = {{names_.gate_up, 2 * width}};
      add_linear("gate_up", parts, spec_.hidden_size, Role::GateUp, spec_.feed_forward_bias);
    }
    add_linear("down", {{names_.down, spec_.hidden_size}}, width, Role::Down, spec_.feed_forward_bias);
    if (spec_.norm_placement != NormPlacement::Pre) add_norm("feed_forward_post_norm", names_.feed_forward_post_norm, spec_.hidden_size);
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
      piece.tensor = with_layer(part.module, layer_) + suffix;
      piece.tensor_shape = parameter.shape;
      piece.tensor_shape[0] = part.rows;
      if (transposed) std::swap(piece.tensor_shape[0], piece.tensor_shape[1]);
      piece.offset.assign(parameter.shape.size(), 0);
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

std::int64_t Piece::num_rows() const { return transposed ? size[1] : size[0]; }

std::int64_t Piece::num_columns() const { return size.size() == 1 ? 1 : transposed ? size[0] : size[1]; }

Piece rows_of(const Piece& piece, std::int64_t first, std::int64_t count) {
  Piece part = piece;
  const std::size_t dim = piece.transposed ? 1 : 0;
  part.offset[dim] += first - piece.row;
  part.size[dim] = count;
  part.row = first;
  return part;
}

Piece columns_of(const Piece& piece, std::int64_t first, std::int64_t count) {
  Piece part = piece;
  const std::size_t dim = piece.transposed ? 0 : 1;
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
