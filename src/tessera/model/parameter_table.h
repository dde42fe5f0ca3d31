#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/model/spec.h"

namespace tessera::model {

/// What a parameter does; plans (tensor, stage, expert) and decay groups select by it.
enum class Role {
  Embedding,
  PositionEmbedding,
  Norm,
  QueryKeyValue,
  LatentDown,  ///< latent attention: hidden states to latent vectors
  LatentUp,    ///< latent vectors (or hidden states, of queries without one) to heads
  Sinks,
  Output,
  GateUp,
  Down,
  Router,        ///< its correction bias too
  Experts,       ///< stacked: [experts, out, in]
  SharedExpert,  ///< its gate too
  Head
};
enum class Initialization { Normal, Zeros, Ones };

/// A box of one checkpoint tensor and the rows of the local tensor that hold it. Rows are those of the local tensor as a matrix: its last dim is a
/// row's (of vectors, an element is a row). A `transposed` box lies in the checkpoint as [columns, rows]. A box of a tensor of three dims (stacked
/// experts) has size 1 in the first.
struct Piece {
  std::string tensor;                      ///< Hugging Face name
  std::vector<std::int64_t> tensor_shape;  ///< global shape as the checkpoint has it
  std::vector<std::int64_t> offset;        ///< of the box, in the checkpoint's own orientation
  std::vector<std::int64_t> size;
  std::int64_t row = 0;  ///< first row of the local tensor
  bool transposed = false;

  /// Rows of the local tensor that the box fills, and its columns there (1 in vectors).
  std::int64_t num_rows() const;
  std::int64_t num_columns() const;
  /// The dims of the checkpoint tensor that they lie along.
  std::size_t row_dim() const;
  std::size_t column_dim() const;
};
/// The part of a piece that fills local rows [first, first + count), or columns counted from its first: the rest of the box is left out.
Piece rows_of(const Piece& piece, std::int64_t first, std::int64_t count);
Piece columns_of(const Piece& piece, std::int64_t first, std::int64_t count);

/// Rows of a local tensor that consecutive ranks of a tensor-parallel group hold alike. Rows that are not listed are this rank's alone.
struct ReplicatedRows {
  std::int64_t row = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_holders = 1;
  std::int64_t holder = 0;  ///< which of them this rank is
  bool partial = false;     ///< each holder computes a share of the gradient, so they are to be summed; otherwise each computes all of it
};

/// One local tensor. Fused projections (q, k, v; gate, up) are one parameter made of several pieces, whatever the checkpoint does.
struct ParameterSpec {
  std::string name;                 ///< e.g. "layers.3.query_key_value.weight"; unique
  std::vector<std::int64_t> shape;  ///< [out, in] for linear weights, always; [experts, out, in] stacked
  Role role = Role::Norm;
  bool bias = false;
  bool buffer = false;  ///< no weight: always fp32 (fp64 for reference runs), never trained, decayed or clipped; saved like the others
  Initialization initialization = Initialization::Normal;
  double standard_deviation = 0.0;         ///< of Normal
  std::int64_t unit = 0;                   ///< 0: embedding, 1 … L: blocks, L + 1: final norm and head
  std::int64_t layer = -1;                 ///< block number, −1 outside blocks
  std::vector<Piece> pieces;               ///< ascending; rows that none of them fills are zero and stay zero
  std::vector<ReplicatedRows> replicated;  ///< ascending; empty where one rank has the whole model
  /// An embedding whose other use, as the head, is on another pipeline rank: both hold it, and the gradients of the two are to be summed.
  bool on_two_stages = false;
  double share_of_tokens = 1.0;  ///< that are multiplied by an element: k of E experts

  std::int64_t num_elements() const;
  std::int64_t row_size() const { return shape.size() == 1 ? 1 : shape.back(); }  ///< elements of a row
  std::int64_t num_rows() const { return num_elements() / row_size(); }
};

/// Consecutive units [first, end).
struct UnitRange {
  int first = 0;
  int end = 0;

  bool operator==(const UnitRange&) const = default;
};

/// Every parameter of the model (or of some units of it) in the order of its units. Needs no tensors. A tied head has no entry of its own: it is a
/// second use of the embedding.
struct ParameterTable {
  std::vector<ParameterSpec> parameters;
  std::int64_t num_units = 0;  ///< of the whole model
  bool tied_head = false;
  std::string tied_head_tensor;              ///< the checkpoint tensor that would repeat the embedding; empty when the head is not tied
  std::string base_prefix;                   ///< "model.": what checkpoints of the bare model leave out of every name but the head's
  std::vector<std::string> unused_prefixes;  ///< tensors that begin so may be in a checkpoint and are not read
  std::set<std::string> elsewhere = {};      ///< checkpoint tensors that other ranks of the pipeline or of ep have

  std::int64_t num_elements() const;
  const ParameterSpec& find(const std::string& name) const;
};
using ParameterPredicate = std::function<bool(const ParameterSpec&)>;

ParameterTable parameter_table(const ModelSpec& spec);

}  // namespace tessera::model
