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

// The box of one piece of a local tensor.
TensorBox box_of(const model::Piece& piece, const at::Tensor& local, const std::string& prefix) {
  TESSERA_ASSERT(local.is_cpu(), "boxes point into host memory");
  at::Tensor view = local.narrow(0, piece.row, piece.transposed ? piece.size[1] : piece.size[0]);
  if (piece.transposed) view = view.t();
  TESSERA_ASSERT(view.sizes().equals(piece.size), "a piece is whole rows of its local tensor");
  return {{prefix + piece.tensor, dtype_of(view), piece.tensor_shape},
          piece.offset,
          piece.size,
          static_cast<std::byte*>(view.data_ptr()),
          view.strides().vec()};
}

void add_boxes(std::vector<TensorBox>& boxes, const model::ParameterSpec& parameter, const at::Tensor& local, const std::string& prefix = "") {
  for (const model::Piece& piece : parameter.pieces) boxes.push_back(box_of(piece, local, prefix));
}

// Calls visit(parameter, buffer, range) in the order of the buffers.
template <class Visit>
void for_each_parameter(const model::ParameterStore& store, const Visit& visit) {
  for (const model::FlatBuffer& buffer : store.buffers())
    for (const model::FlatBuffer::Range& range : buffer.ranges) visit(store.table().parameters[range.parameter], buffer, range);
}

at::Tensor local_view(const at::Tensor& flat, const model::FlatBuffer::Range& range, const model::ParameterSpec& parameter) {
  return flat.narrow(0, range.begin, range.size).view(parameter.shape);
}

}  // namespace

std::vector<TensorBox> compute_boxes(const model::ParameterStore& store) {
  std::vector<TensorBox> boxes;
  for_each_parameter(store, [&](const auto& parameter, const auto& buffer, const auto& range) {
    add_boxes(boxes, parameter, local_view(buffer.compute, range, parameter));
  });
  return boxes;
}

std::vector<TensorBox> master_boxes(const model::ParameterStore& store) {
  std::vector<TensorBox> boxes;
  for_each_parameter(store, [&](const auto& parameter, const auto& buffer, const auto& range) {
    add_boxes(boxes, parameter, local_view(buffer.master.defined() ? buffer.master : buffer.compute, range, parameter));
  });
  return boxes;
}

std::vector<TensorBox> moment_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer) {
  std::vector<TensorBox> boxes;
  for_each_parameter(store, [&](const auto& parameter, const auto& buffer, const auto& range) {
    if (!buffer.trainable) return;
    const optim::Moments moments = optimizer.moments_of(range.parameter);
    add_boxes(boxes, parameter, moments.first, kFirstMoment);
    add_boxes(boxes, parameter, moments.second, kSecondMoment);
  });
  return boxes;
}

std::vector<TensorBox> optimizer_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer) {
  std::vector<TensorBox> boxes = moment_boxes(store, optimizer);
  for_each_parameter(store, [&](const auto& parameter, const auto& buffer, const auto& range) {
    if (buffer.master.defined() && !buffer.master.is_same(buffer.compute))
      add_boxes(boxes, parameter, local_view(buffer.master, range, parameter), kMaster);
  });
  return boxes;
}

}  // namespace tessera::checkpoint
