#include "tessera/model/export.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"

namespace tessera::model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

bool is_whole_tensor(const Piece& piece) { return piece.size == piece.tensor_shape; }

}  // namespace

CheckpointView::CheckpointView(const ParameterStore& store) : store_(&store) {
  for (std::size_t parameter = 0; parameter < store.table().parameters.size(); ++parameter) {
    const auto& pieces = store.table().parameters[parameter].pieces;
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      TESSERA_ASSERT(is_whole_tensor(pieces[piece]) && store.options().placement.num_shards == 1, "this process holds every checkpoint tensor whole");
      names_.push_back(pieces[piece].tensor);
      places_.emplace(pieces[piece].tensor, Place{parameter, piece});
    }
  }
}

const CheckpointView::Place& CheckpointView::place(const std::string& name) const {
  const auto found = places_.find(name);
  TESSERA_ASSERT(found != places_.end(), "no checkpoint tensor of this name");
  return found->second;
}

const Piece& CheckpointView::piece(const Place& place) const { return store_->table().parameters[place.parameter].pieces[place.piece]; }

std::vector<formats::TensorSpec> CheckpointView::tensors(DType dtype) const {
  std::vector<formats::TensorSpec> specs;
  for (const std::string& name : names_) specs.push_back({name, dtype, piece(place(name)).tensor_shape});
  return specs;
}

at::Tensor CheckpointView::weight(const std::string& name) const {
  const Place& found = place(name);
  return checkpoint_view(store_->master(found.parameter), piece(found));
}

at::Tensor CheckpointView::gradient(const std::string& name) const {
  const Place& found = place(name);
  const at::Tensor& gradient = store_->parameter(found.parameter).gradient;
  return gradient.defined() ? checkpoint_view(gradient, piece(found)) : at::Tensor();
}

void CheckpointView::write(const formats::TensorSpec& tensor, const formats::ByteSink& sink) const {
  const at::Tensor values = weight(tensor.name);
  const std::int64_t rows = values.size(0);
  const std::int64_t step = std::max<std::int64_t>(1, kChunkElements * rows / values.numel());
  for (std::int64_t row = 0; row < rows; row += step) {
    const at::Tensor chunk = values.narrow(0, row, std::min(step, rows - row)).to(scalar_type(tensor.dtype)).contiguous();
    sink({static_cast<const std::byte*>(chunk.data_ptr()), static_cast<std::size_t>(chunk.numel() * chunk.element_size())});
  }
}

formats::TensorProducer CheckpointView::producer() const {
  return [this](const formats::TensorSpec& tensor, const formats::ByteSink& sink) { write(tensor, sink); };
}

}  // namespace tessera::model
