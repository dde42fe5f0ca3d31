#include "tessera/parallel/tensor/share.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/model/placement.h"

namespace tessera::parallel {
namespace {

using model::Extent;
using model::ModelSpec;
using model::ParameterSpec;
using model::Role;

/// The parameter made of these rows, one range after another.
ParameterSpec take_rows(const ParameterSpec& whole, const std::vector<Extent>& ranges) {
  ParameterSpec part = whole;
  part.pieces.clear();
  part.shape[0] = 0;
  for (const Extent& range : ranges) {
    for (model::Piece piece : model::pieces_of_rows(whole, range)) {
      piece.row += part.shape[0] - range.begin;
      part.pieces.push_back(std::move(piece));
    }
    part.shape[0] += range.size();
  }
  return part;
}

ParameterSpec take_columns(const ParameterSpec& whole, const Extent& range) {
  ParameterSpec part = whole;
  part.shape[1] = range.size();
  for (model::Piece& piece : part.pieces) piece = model::columns_of(piece, range.begin, range.size());
  return part;
}

Extent shifted(const Extent& extent, std::int64_t by) { return {extent.begin + by, extent.end + by}; }

class Cutter {
 public:
  Cutter(const ModelSpec& whole, const TensorShare& share)
      : whole_(whole), share_(share), queries_(of_heads(whole.head_dim)), holders_(key_value_holders(whole, share)) {
    const std::int64_t groups = share.size / holders_;  // ranks with different key/value heads
    const std::int64_t heads = whole.num_key_value_heads / groups;
    const std::int64_t first = share.rank / holders_ * heads;
    keys_ = {first * whole.head_dim, (first + heads) * whole.head_dim};
  }

  ParameterSpec cut(const ParameterSpec& parameter) const {
    switch (parameter.role) {
      case Role::Router:
      case Role::Experts:
      case Role::SharedExpert:
        return replicated(parameter, !parameter.buffer);  // each rank sees its own tokens
      case Role::PositionEmbedding:
        return replicated(parameter, share_.sequence_parallel);
      case Role::Norm:
        return norm(parameter);
      default:
        return share_.plan.splits(parameter.role) ? cut_matrix(parameter) : replicated(parameter, false);
    }
  }

 private:
  ParameterSpec cut_matrix(const ParameterSpec& parameter) const {
    switch (parameter.role) {
      case Role::Embedding:
      case Role::Head:
        return vocabulary(parameter);
      case Role::QueryKeyValue:
        return query_key_value(parameter);
      case Role::GateUp:
        return gate_up(parameter);
      case Role::Output:
        return parameter.bias ? replicated(parameter, share_.sequence_parallel) : take_columns(parameter, of_heads(whole_.value_dim()));
      case Role::Down:
        return parameter.bias ? replicated(parameter, share_.sequence_parallel) : take_columns(parameter, even_part(whole_.intermediate_size));
      case Role::LatentDown:
        return replicated(parameter, true);  // each rank's heads see a part of what it makes
      case Role::LatentUp:
        return take_rows(parameter, {of_heads(parameter.shape[0] / whole_.num_attention_heads)});
      case Role::Sinks:
        return take_rows(parameter, {of_heads(1)});
      default:
        TESSERA_ASSERT(false, "no matrix of tensor parallelism");
    }
  }

  Extent even_part(std::int64_t size) const {
    TESSERA_ASSERT(size % share_.size == 0, "the size divides by the number of ranks");
    const std::int64_t part = size / share_.size;
    return {share_.rank * part, (share_.rank + 1) * part};
  }

  /// This rank's of all query heads, `size` elements each.
  Extent of_heads(std::int64_t size) const {
    const Extent part = even_part(whole_.num_attention_heads);
    return {part.begin * size, part.end * size};
  }

  ParameterSpec replicated(ParameterSpec parameter, bool partial) const {
    parameter.replicated = {{.row = 0, .num_rows = parameter.num_rows(), .num_holders = share_.size, .holder = share_.rank, .partial = partial}};
    return parameter;
  }

  /// Rows from `row` on hold key/value heads, which other ranks may hold too, each seeing the gradients of its own queries.
  ParameterSpec with_shared_keys(ParameterSpec parameter, std::int64_t row) const {
    if (holders_ == 1) return parameter;
    parameter.replicated = {
        {.row = row, .num_rows = parameter.shape[0] - row, .num_holders = holders_, .holder = share_.rank % holders_, .partial = true}};
    return parameter;
  }

  ParameterSpec vocabulary(const ParameterSpec& parameter) const {
    const VocabularyRange range = vocabulary_range(whole_.vocab_size, share_);
    ParameterSpec part = take_rows(parameter, {{range.first, range.first + range.count}});
    part.shape[0] = vocabulary_range(whole_.vocab_size, {.size = share_.size}).count;
    return part;
  }

  ParameterSpec query_key_value(const ParameterSpec& parameter) const {
    const std::int64_t query_rows = whole_.num_attention_heads * whole_.head_dim, key_rows = whole_.num_key_value_heads * whole_.head_dim;
    return with_shared_keys(take_rows(parameter, {queries_, shifted(keys_, query_rows), shifted(keys_, query_rows + key_rows)}), queries_.size());
  }

  ParameterSpec gate_up(const ParameterSpec& parameter) const {
    const Extent part = even_part(whole_.intermediate_size);
    if (whole_.feed_forward == model::FeedForwardKind::Plain) return take_rows(parameter, {part});
    return take_rows(parameter, {part, shifted(part, whole_.intermediate_size)});
  }

  ParameterSpec norm(const ParameterSpec& parameter) const {
    const bool query = parameter.name.ends_with(".query_norm.weight"), key = parameter.name.ends_with(".key_norm.weight");
    const bool latent = parameter.name.ends_with("_down_norm.weight");
    if (!query && !key && !latent) return replicated(parameter, share_.sequence_parallel);
    if (!share_.plan.attention) return replicated(parameter, false);
    if (latent) return replicated(parameter, true);
    if (whole_.query_key_norm == model::QueryKeyNorm::Head) return replicated(parameter, true);
    return query ? take_rows(parameter, {queries_}) : with_shared_keys(take_rows(parameter, {keys_}), 0);
  }

  const ModelSpec& whole_;
  TensorShare share_;
  Extent queries_, keys_;  ///< rows of this rank's heads within all queries, and within all keys
  std::int64_t holders_;
};

}  // namespace

VocabularyRange vocabulary_range(std::int64_t vocab_size, const TensorShare& share) {
  const std::int64_t most = (vocab_size + share.size - 1) / share.size;
  const std::int64_t first = std::min(most * share.rank, vocab_size);
  return {first, std::min(most, vocab_size - first)};
}

std::int64_t key_value_holders(const ModelSpec& whole, const TensorShare& share) {
  return share.plan.attention ? std::max<std::int64_t>(1, share.size / whole.num_key_value_heads) : 1;
}

ModelSpec tensor_parallel_spec(const ModelSpec& whole, const TensorShare& share) {
  ModelSpec part = whole;
  if (!share.plan.attention) return part;
  part.num_attention_heads = whole.num_attention_heads / share.size;
  part.num_key_value_heads = whole.num_key_value_heads * key_value_holders(whole, share) / share.size;
  return part;
}

model::ParameterTable tensor_parallel_table(const ModelSpec& whole, const TensorShare& share) {
  model::ParameterTable table = model::parameter_table(whole);
  if (share.size == 1) return table;
  const Cutter cutter(whole, share);
  for (ParameterSpec& parameter : table.parameters) parameter = cutter.cut(parameter);
  return table;
}

}  // namespace tessera::parallel
