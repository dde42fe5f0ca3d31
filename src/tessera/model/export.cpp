#include "tessera/model/export.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"

namespace tessera::model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

/// Whether the box has all of the tensor's dims but the first.
bool has_whole_entries(const Piece& piece) { return std::equal(piece.size.begin() + 1, piece.size.end(), piece.tensor_shape.begin() + 1); }

}  // namespace

CheckpointView::CheckpointView(const ParameterStore& store) : store_(&store) {
  for (std::size_t parameter = 0; parameter < store.table().parameters.size(); ++parameter) {
    const auto& pieces = store.table().parameters[parameter].pieces;
    for (std::size_t first = 0, last = 0; first < pieces.size(); first = last) {
      std::int64_t entries = 0;
      for (; last < pieces.size() && pieces[last].tensor == pieces[first].tensor; ++last) {
        TESSERA_ASSERT(has_whole_entries(pieces[last]) && pieces[last].offset[0] == entries, "pieces of a tensor follow one another");
        entries += pieces[last].size[0];
      }
      TESSERA_ASSERT(entries == pieces[first].tensor_shape[0] && store.options().placement.num_shards == 1,
                     "this process holds every checkpoint tensor whole");
      names_.push_back(pieces[first].tensor);
      places_.emplace(pieces[first].tensor, Place{parameter, first, last});
    }
  }
}

const CheckpointView::Place& CheckpointView::place(const std::string& name) const {
  const auto found = places_.find(name);
  TESSERA_ASSERT(found != places_.end(), "no checkpoint tensor of this name");
  return found->second;
}

at::Tensor CheckpointView::tensor_of(const at::Tensor& parameter, const Place& place) const {
  std::vector<at::Tensor> parts;
  for (std::size_t number = place.first_piece; number < place.last_piece; ++number) parts.push_back(checkpoint_view(parameter, piece(place, number)));
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

std::vector<formats::TensorSpec> CheckpointView::tensors(DType dtype) const {
  std::vector<formats::TensorSpec> specs;
  for (const std::string& name : names_) specs.push_back({name, dtype, piece(place(name), place(name).first_piece).tensor_shape});
  return specs;
}

at::Tensor CheckpointView::weight(const std::string& name) const {
  const Place& found = place(name);
  return tensor_of(store_->master(found.parameter), found);
}

at::Tensor CheckpointView::gradient(const std::string& name) const {
  const Place& found = place(name);
  const at::Tensor& gradient = store_->parameter(found.parameter).gradient;
  return gradient.defined() ? tensor_of(gradient, found) : at::Tensor();
}

void CheckpointView::write(const formats::TensorSpec& tensor, const formats::ByteSink& sink) const {
  const Place& found = place(tensor.name);
  const at::Tensor master = store_->master(found.parameter);
  for (std::size_t number = found.first_piece; number < found.last_piece; ++number) {
    const at::Tensor part = checkpoint_view(master, piece(found, number));
    const at::Tensor values = part.dim() == 3 ? part.squeeze(0) : part;
    const std::int64_t rows = values.size(0);
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements * rows / values.numel());
    for (std::int64_t row = 0; row < rows; row += step) {
      const at::Tensor chunk = values.narrow(0, row, std::min(step, rows - row)).to(scalar_type(tensor.dtype)).contiguous();
      sink({static_cast<const std::byte*>(chunk.data_ptr()), static_cast<std::size_t>(chunk.numel() * chunk.element_size())});
    }
  }
}

formats::TensorProducer CheckpointView::producer() const {
  return [this](const formats::TensorSpec& tensor, const formats::ByteSink& sink) { write(tensor, sink); };
}

}  // namespace tessera::model
