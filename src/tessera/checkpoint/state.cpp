#include "tessera/checkpoint/state.h"

#include <utility>

#include "tessera/core/error.h"

namespace tessera::checkpoint {
namespace {

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return DType::F64;
    case at::kBFloat16:
      return DType::BF16;
    case at::kHalf:
      return DType::F16;
    default:
      TESSERA_ASSERT(tensor.scalar_type() == at::kFloat, "weights and moments are floating-point");
      return DType::F32;
  }
}

TensorBox box_of(const model::PlacedPiece& placed, const at::Tensor& held, std::int64_t first, const std::string& prefix = "") {
  TESSERA_ASSERT(held.is_cpu(), "boxes point into host memory");
  const at::Tensor view = model::checkpoint_view(held, placed, first);
  TESSERA_ASSERT(view.sizes().equals(placed.piece.size), "a piece is whole rows of its local tensor");
  return {{prefix + placed.piece.tensor, dtype_of(view), placed.piece.tensor_shape},
          placed.piece.offset,
          placed.piece.size,
          static_cast<std::byte*>(view.data_ptr()),
          view.strides().vec()};
}

}  // namespace

std::vector<TensorBox> compute_boxes(const model::ParameterStore& store, const Pieces& pieces) {
  std::vector<TensorBox> boxes;
  for (const model::PlacedPiece& piece : pieces) {
    const model::FlatBuffer& buffer = store.buffers()[piece.buffer];
    boxes.push_back(box_of(piece, buffer.compute_shard, buffer.held.begin));
  }
  return boxes;
}

std::vector<TensorBox> master_boxes(const model::ParameterStore& store, const Pieces& pieces) {
  std::vector<TensorBox> boxes;
  for (const model::PlacedPiece& piece : pieces) {
    const model::FlatBuffer& buffer = store.buffers()[piece.buffer];
    boxes.push_back(box_of(piece, buffer.master.defined() ? buffer.master : buffer.compute_shard, buffer.held.begin));
  }
  return boxes;
}

std::vector<TensorBox> moment_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer, const Pieces& pieces) {
  std::vector<TensorBox> boxes;
  for (const model::PlacedPiece& piece : pieces) {
    const model::FlatBuffer& buffer = store.buffers()[piece.buffer];
    if (!buffer.trainable) continue;
    const optim::Moments& moments = optimizer.moments()[piece.buffer];
    boxes.push_back(box_of(piece, moments.first, buffer.held.begin, kFirstMoment));
    boxes.push_back(box_of(piece, moments.second, buffer.held.begin, kSecondMoment));
  }
  return boxes;
}

std::vector<TensorBox> optimizer_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer, const Pieces& pieces) {
  std::vector<TensorBox> boxes = moment_boxes(store, optimizer, pieces);
  for (const model::PlacedPiece& piece : pieces) {
    const model::FlatBuffer& buffer = store.buffers()[piece.buffer];
    if (buffer.master.defined() && !buffer.master.is_same(buffer.compute_shard))
      boxes.push_back(box_of(piece, buffer.master, buffer.held.begin, kMaster));
  }
  return boxes;
}

}  // namespace tessera::checkpoint
