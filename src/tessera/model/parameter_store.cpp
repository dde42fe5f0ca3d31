#include "tessera/model/parameter_store.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"
#include "tessera/model/piece_plan.h"

namespace tessera::model {
namespace {

/// Starts are 64-byte aligned in every dtype down to two bytes.
constexpr std::int64_t kAlignment = 32;

std::int64_t align_up(std::int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

DType master_dtype(DType compute) { return compute == DType::F64 ? DType::F64 : DType::F32; }

/// Which parameters share a buffer: those of one unit that are trained, those that are not, one that other ranks have in another unit, and experts
/// that lie over other ranks.
std::vector<FlatBuffer> plan_buffers(const ParameterTable& table, const ParameterStore::Options& options) {
  std::vector<FlatBuffer> buffers;
  for (std::size_t index = 0; index < table.parameters.size(); ++index) {
    const ParameterSpec& parameter = table.parameters[index];
    const bool trainable = options.trainable && !parameter.buffer && !(options.frozen && options.frozen(parameter));
    const bool widened = options.kept_in_bfloat16.contains(parameter.name);
    const bool experts = options.expert_placement && parameter.role == Role::Experts;
    const bool exact = parameter.buffer || (options.full_precision && options.full_precision(parameter));
    auto buffer = std::ranges::find_if(buffers, [&](const FlatBuffer& other) {
      return other.unit == parameter.unit && other.trainable == trainable && other.widened == widened && other.exact == exact &&
             other.on_two_stages == parameter.on_two_stages && other.experts == experts;
    });
    if (buffer == buffers.end()) {
      buffers.emplace_back();
      buffers.back().unit = parameter.unit;
      buffers.back().trainable = trainable;
      buffers.back().widened = widened;
      buffers.back().on_two_stages = parameter.on_two_stages;
      buffers.back().experts = experts;
      buffers.back().exact = exact;
      buffer = buffers.end() - 1;
    }
    buffer->ranges.push_back({index, buffer->num_elements(), parameter.num_elements(), parameter.row_size()});
  }
  return buffers;
}

void set_extents(FlatBuffer& buffer, const ParameterTable& table, const Placement& placement) {
  buffer.shards = row_aligned_parts(buffer.ranges, {0, buffer.num_elements()}, placement.num_shards);
  buffer.held = buffer.shards[static_cast<std::size_t>(placement.shard)];
  const std::vector<Extent> parts = row_aligned_parts(buffer.ranges, buffer.held, placement.num_replicas);
  buffer.owned = owned_extents(table, buffer.ranges, parts[static_cast<std::size_t>(placement.replica)]);
}

/// The held part of a whole tensor.
at::Tensor held_part(const FlatBuffer& buffer, const at::Tensor& whole) {
  return buffer.held == Extent{0, whole.numel()} ? whole : whole.narrow(0, buffer.held.begin, buffer.held.size());
}

void allocate(FlatBuffer& buffer, DType compute_dtype, const Placement& placement) {
  const DType compute = buffer.widened ? DType::BF16 : buffer.exact ? master_dtype(compute_dtype) : compute_dtype;
  const std::int64_t size = buffer.num_elements();
  const DType master = master_dtype(compute);
  if (placement.whole_weights) buffer.compute = allocate_flat(size, compute);
  buffer.compute_shard = placement.whole_weights ? held_part(buffer, buffer.compute) : allocate_flat(buffer.held.size(), compute);
  if (compute == master) buffer.master = buffer.compute_shard;
  if (!buffer.trainable) return;
  if (compute != master) buffer.master = allocate_flat(buffer.held.size(), master);
  if (placement.whole_gradients) buffer.gradient = allocate_flat(size, master);
  buffer.gradient_shard = placement.whole_gradients ? held_part(buffer, buffer.gradient) : allocate_flat(buffer.held.size(), master);
}

/// The boxes within an extent of buffers[number].
void append_pieces(const ParameterTable& table, const std::vector<FlatBuffer>& buffers, std::size_t number, const Extent& extent,
                   std::vector<PlacedPiece>& result) {
  for (const FlatRange& range : buffers[number].ranges) {
    for (PlacedPiece& piece : pieces_within(table.parameters[range.parameter], range, extent)) {
      piece.buffer = number;
      result.push_back(std::move(piece));
    }
  }
}

std::vector<PlacedPiece> owned_in(const ParameterTable& table, const std::vector<FlatBuffer>& buffers) {
  std::vector<PlacedPiece> result;
  for (std::size_t number = 0; number < buffers.size(); ++number)
    for (const Extent& extent : buffers[number].owned) append_pieces(table, buffers, number, extent, result);
  return result;
}

/// Local rows as the checkpoint has them.
at::Tensor oriented(const at::Tensor& rows, const Piece& piece) {
  const at::Tensor turned = piece.transposed ? rows.t() : rows;
  return piece.size.size() == 3 ? turned.unsqueeze(0) : turned;
}

at::Tensor shaped_view(const at::Tensor& flat, const FlatRange& range, const std::vector<std::int64_t>& shape) {
  return flat.narrow(0, range.begin, range.size).view(shape);
}

}  // namespace

std::int64_t FlatBuffer::num_elements() const { return ranges.empty() ? 0 : align_up(ranges.back().begin + ranges.back().size); }

ParameterStore::ParameterStore(ParameterTable table, Options options) : table_(std::move(table)), options_(std::move(options)) {
  TESSERA_ASSERT(options_.kept_in_bfloat16.empty() || (!options_.trainable && options_.compute_dtype == DType::F32),
                 "only fp32 weights that are not trained may be kept in bf16");
  buffers_ = plan_buffers(table_, options_);
  parameters_.resize(table_.parameters.size());
  places_.resize(table_.parameters.size());
  for (std::size_t number = 0; number < buffers_.size(); ++number) {
    FlatBuffer& buffer = buffers_[number];
    for (std::size_t place = 0; place < buffer.ranges.size(); ++place) {
      const std::size_t index = buffer.ranges[place].parameter;
      parameters_[index] = std::make_unique<ops::Parameter>();
      parameters_[index]->name = table_.parameters[index].name;
      parameters_[index]->trainable = buffer.trainable;
      parameters_[index]->widened = buffer.widened;
      index_by_name_.emplace(parameters_[index]->name, index);
      places_[index] = {number, place};
    }
    set_extents(buffer, table_, placement(buffer));
    allocate(buffer, options_.compute_dtype, placement(buffer));
    if (buffer.compute.defined()) set_compute(buffer, buffer.compute);
    if (buffer.gradient.defined()) set_gradient(buffer, buffer.gradient);
  }
}

ops::Parameter& ParameterStore::parameter(const std::string& name) { return parameter(index_of(name)); }

bool ParameterStore::contains(const std::string& name) const { return index_by_name_.contains(name); }

std::size_t ParameterStore::index_of(const std::string& name) const {
  const auto found = index_by_name_.find(name);
  TESSERA_ASSERT(found != index_by_name_.end(), "no parameter of this name in the store");
  return found->second;
}

at::Tensor ParameterStore::master(std::size_t index) const {
  const auto [number, place] = places_[index];
  const FlatBuffer& buffer = buffers_[number];
  TESSERA_ASSERT(buffer.held.size() == buffer.num_elements(), "the parameter is held whole");
  return shaped_view(buffer.master.defined() ? buffer.master : buffer.compute, buffer.ranges[place], table_.parameters[index].shape);
}

std::vector<PlacedPiece> ParameterStore::held_pieces() const {
  std::vector<PlacedPiece> result;
  for (std::size_t number = 0; number < buffers_.size(); ++number) append_pieces(table_, buffers_, number, buffers_[number].held, result);
  return result;
}

std::vector<PlacedPiece> ParameterStore::owned_pieces() const { return owned_in(table_, buffers_); }

std::vector<PlacedPiece> plan_owned_pieces(const ParameterTable& table, const ParameterStore::Options& options) {
  std::vector<FlatBuffer> buffers = plan_buffers(table, options);
  for (FlatBuffer& buffer : buffers) set_extents(buffer, table, buffer.experts ? *options.expert_placement : options.placement);
  return owned_in(table, buffers);
}

void ParameterStore::set_compute(FlatBuffer& buffer, at::Tensor compute) {
  buffer.compute = std::move(compute);
  for (const FlatRange& range : buffer.ranges)
    parameters_[range.parameter]->weight = shaped_view(buffer.compute, range, table_.parameters[range.parameter].shape);
}

void ParameterStore::release_compute(FlatBuffer& buffer) {
  buffer.compute.reset();
  for (const FlatRange& range : buffer.ranges) parameters_[range.parameter]->weight.reset();
}

void ParameterStore::set_gradient(FlatBuffer& buffer, at::Tensor gradient) {
  buffer.gradient = std::move(gradient);
  std::int64_t end = 0;
  for (const FlatRange& range : buffer.ranges) {
    buffer.gradient.narrow(0, end, range.begin - end).zero_();
    end = range.begin + range.size;
    ops::Parameter& parameter = *parameters_[range.parameter];
    parameter.gradient = shaped_view(buffer.gradient, range, table_.parameters[range.parameter].shape);
    parameter.gradient_written = false;
  }
  buffer.gradient.narrow(0, end, buffer.gradient.numel() - end).zero_();
}

void ParameterStore::release_gradient(FlatBuffer& buffer) {
  buffer.gradient.reset();
  for (const FlatRange& range : buffer.ranges) parameters_[range.parameter]->gradient.reset();
}

void ParameterStore::start_gradients() {
  for (auto& parameter : parameters_) parameter->gradient_written = false;
}

void ParameterStore::finish_gradients() {
  for (FlatBuffer& buffer : buffers_)
    if (buffer.gradient.defined()) finish_gradients(buffer);
}

void ParameterStore::finish_gradients(FlatBuffer& buffer) {
  for (const FlatRange& range : buffer.ranges) {
    ops::Parameter& parameter = *parameters_[range.parameter];
    if (parameter.gradient_written) continue;
    parameter.gradient.zero_();
    parameter.gradient_written = true;
  }
}

void ParameterStore::refresh_compute() {
  for (FlatBuffer& buffer : buffers_) {
    if (buffer.master.defined() && !buffer.master.is_same(buffer.compute_shard)) buffer.compute_shard.copy_(buffer.master);
  }
}

at::Tensor checkpoint_view(const at::Tensor& tensor, const Piece& piece) {
  const at::Tensor matrix = tensor.dim() <= 2 ? tensor : tensor.flatten(0, -2);
  return oriented(matrix.narrow(0, piece.row, piece.num_rows()), piece);
}

at::Tensor checkpoint_view(const at::Tensor& flat, const PlacedPiece& piece, std::int64_t first) {
  const std::int64_t rows = piece.piece.num_rows();
  const at::Tensor elements = flat.narrow(0, piece.begin - first, rows * piece.row_size);
  if (piece.piece.size.size() == 1) return elements;
  return oriented(elements.view({rows, piece.row_size}), piece.piece);
}

at::Tensor held_view(const ParameterStore& store, const PlacedPiece& piece) {
  const FlatBuffer& buffer = store.buffers()[piece.buffer];
  return checkpoint_view(buffer.master.defined() ? buffer.master : buffer.compute_shard, piece, buffer.held.begin);
}

}  // namespace tessera::model
