#include "tessera/checkpoint/staging.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "tessera/core/stream_copy.h"

namespace tessera::checkpoint {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kStagedBytes = std::size_t{4} << 20;

std::size_t num_bytes(const TensorBox& box) { return box.num_elements() * size_of(box.tensor.dtype); }

/// Whether the elements fill a stretch of memory, in whatever order: transposed tensors do.
bool is_dense(const TensorBox& box) {
  std::int64_t last = 0;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim) last += (box.size[dim] - 1) * box.strides[dim];
  return static_cast<std::uint64_t>(last) + 1 == box.num_elements();
}

struct Chunk {
  const std::byte* from;
  std::byte* to;
  std::size_t size;
};

void copy_all(const std::vector<Chunk>& chunks) {
  at::parallel_for(0, static_cast<std::int64_t>(chunks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      stream_copy(chunk.to, chunk.from, chunk.size);
    }
  });
}

}  // namespace

void Staging::copy(const std::vector<TensorBox*>& boxes) {
  std::size_t total = 0;
  for (const TensorBox* box : boxes) total += (num_bytes(*box) + kAlignment - 1) / kAlignment * kAlignment;
  if (!memory_.defined() || static_cast<std::size_t>(memory_.numel()) < total) {
    memory_ = at::Tensor();  // gone before the larger one comes
    memory_ = at::empty({static_cast<std::int64_t>(total)}, at::kByte);
  }
  auto* next = static_cast<std::byte*>(memory_.data_ptr());
  std::vector<Chunk> chunks;
  for (TensorBox* box : boxes) {
    const std::size_t size = num_bytes(*box);
    if (size > 0 && is_dense(*box)) {
      for (std::size_t begin = 0; begin < size; begin += kStagedBytes)
        chunks.push_back({box->memory + begin, next + begin, std::min(kStagedBytes, size - begin)});
    } else {
      std::byte* to = next;
      stream_bytes(*box, [&](std::span<const std::byte> bytes) { to = std::copy(bytes.begin(), bytes.end(), to); });
      make_row_major(*box);
    }
    box->memory = next;
    next += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  copy_all(chunks);
}

}  // namespace tessera::checkpoint
