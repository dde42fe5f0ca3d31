#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/formats/tensor_spec.h"

/// A rank's part of a tensor: plain data, whatever cut it.
namespace tessera::checkpoint {

/// A box of a named tensor and the local memory that holds it. `memory` belongs to someone else; saving only reads it. A tensor that lies transposed
/// in memory has its strides the other way round.
struct TensorBox {
  formats::TensorSpec tensor;  ///< name, the memory's dtype, and the shape of the whole tensor
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;
  std::byte* memory = nullptr;        ///< of the box's first element
  std::vector<std::int64_t> strides;  ///< in elements, one per dimension

  std::uint64_t num_elements() const { return formats::num_elements(size); }
};

/// Boxes that follow one another along the first dim of a tensor of three dims or more, and in memory, as one: stacked experts are pieces each.
std::vector<TensorBox> merge_entries(std::vector<TensorBox> boxes);

/// Sets the strides of a box whose elements lie row-major.
void make_row_major(TensorBox& box);
/// The box's elements in row-major order, in one piece or several.
void stream_bytes(const TensorBox& box, const std::function<void(std::span<const std::byte>)>& sink);

/// A box as it lies in a file: row-major, possibly unaligned.
struct StoredBox {
  DType dtype = DType::F32;
  std::span<const std::int64_t> offset;
  std::span<const std::int64_t> size;
  std::span<const std::byte> bytes;
};
/// Whether a box has elements in common with another of the same tensor.
bool intersects(std::span<const std::int64_t> offset, std::span<const std::int64_t> size, const TensorBox& target);
/// Copies what both boxes have in common, converting the dtype (formats::is_convertible). Calls `done(begin, end)` for byte ranges of `stored` that
/// will not be read again, in ascending order. Returns the number of elements copied.
std::uint64_t copy_common(const StoredBox& stored, const TensorBox& target, const std::function<void(std::size_t begin, std::size_t end)>& done);

}  // namespace tessera::checkpoint
