#include "tessera/checkpoint/box.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tessera/formats/convert.h"
#include "tessera/formats/tensor_source.h"

namespace tessera::checkpoint {
namespace {

using Index = std::vector<std::int64_t>;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
constexpr std::size_t kDroppedAtOnce = std::size_t{1} << 20;

bool is_row_major(const TensorBox& box) {
  std::int64_t expected = 1;
  for (std::size_t dim = box.size.size(); dim-- > 0;) {
    if (box.size[dim] != 1 && box.strides[dim] != expected) return false;
    expected *= box.size[dim];
  }
  return true;
}

// The next index in [first, last) over all dimensions but the last one; false after the final one.
bool next_row(Index& index, const Index& first, const Index& last) {
  for (std::size_t dim = index.size() - 1; dim-- > 0;) {
    if (++index[dim] < last[dim]) return true;
    index[dim] = first[dim];
  }
  return false;
}

std::int64_t position(const Index& index, std::span<const std::int64_t> origin, std::span<const std::int64_t> strides) {
  std::int64_t sum = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) sum += (index[dim] - origin[dim]) * strides[dim];
  return sum;
}

Index row_major_strides(std::span<const std::int64_t> size) {
  Index strides(size.size(), 1);
  for (std::size_t dim = size.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * size[dim];
  return strides;
}

// `count` elements between memory with a stride and packed bytes.
void gather(const std::byte* from, std::int64_t stride, std::size_t element, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * element, from + i * stride * static_cast<std::int64_t>(element), element);
}
void scatter(const std::byte* from, std::byte* to, std::int64_t stride, std::size_t element, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * stride * static_cast<std::int64_t>(element), from + static_cast<std::size_t>(i) * element, element);
}

// Scalars are handled as one element of one dimension.
TensorBox with_dimension(TensorBox box) {
  if (!box.size.empty()) return box;
  box.offset = {0};
  box.size = {1};
  box.strides = {1};
  return box;
}

bool follows(const TensorBox& box, const TensorBox& last) {
  const auto tail = [](const Index& values) { return std::span(values).subspan(1); };
  if (box.tensor.name != last.tensor.name || box.size.size() < 3 || box.offset[0] != last.offset[0] + last.size[0]) return false;
  if (!std::ranges::equal(tail(box.size), tail(last.size)) || !std::ranges::equal(tail(box.offset), tail(last.offset)) ||
      !std::ranges::equal(tail(box.strides), tail(last.strides)))
    return false;
  return last.memory == nullptr || box.memory == last.memory + last.num_elements() * size_of(last.tensor.dtype);
}

// One run of elements along the last dimension.
void copy_row(const std::byte* from, DType from_dtype, const TensorBox& target, std::byte* to, std::int64_t count, std::vector<std::byte>& packed) {
  const DType dtype = target.tensor.dtype;
  const auto convert = [&](std::byte* out) {
    if (from_dtype == dtype)
      std::memcpy(out, from, static_cast<std::size_t>(count) * size_of(dtype));
    else
      formats::convert_elements(from_dtype, from, dtype, out, static_cast<std::uint64_t>(count));
  };
  if (target.strides.back() == 1) return convert(to);
  packed.resize(static_cast<std::size_t>(count) * size_of(dtype));
  convert(packed.data());
  scatter(packed.data(), to, target.strides.back(), size_of(dtype), count);
}

}  // namespace

std::vector<TensorBox> merge_entries(std::vector<TensorBox> boxes) {
  std::vector<TensorBox> merged;
  std::map<std::string, std::size_t> last;  // box of each tensor
  for (TensorBox& box : boxes) {
    const auto found = last.find(box.tensor.name);
    if (found == last.end() || !follows(box, merged[found->second])) {
      last[box.tensor.name] = merged.size();
      merged.push_back(std::move(box));
      continue;
    }
    TensorBox& before = merged[found->second];
    // Entries lie densely: as many elements apart as one has.
    before.strides[0] = static_cast<std::int64_t>(box.num_elements()) / box.size[0];
    before.size[0] += box.size[0];
  }
  return merged;
}

void make_row_major(TensorBox& box) { box.strides = row_major_strides(box.size); }

void stream_bytes(const TensorBox& original, const std::function<void(std::span<const std::byte>)>& sink) {
  const TensorBox box = with_dimension(original);
  const std::size_t element = size_of(box.tensor.dtype);
  if (box.num_elements() == 0) return;
  if (is_row_major(box)) return sink({box.memory, box.num_elements() * element});
  const std::size_t row_bytes = static_cast<std::size_t>(box.size.back()) * element;
  const Index first(box.size.size(), 0);
  Index index = first;
  std::vector<std::byte> chunk;
  bool more = true;
  while (more) {
    chunk.resize(chunk.size() + row_bytes);
    gather(box.memory + position(index, first, box.strides) * static_cast<std::int64_t>(element), box.strides.back(), element, box.size.back(),
           chunk.data() + chunk.size() - row_bytes);
    more = next_row(index, first, box.size);
    if (!more || chunk.size() >= kChunkBytes) {
      sink(chunk);
      chunk.clear();
    }
  }
}

bool intersects(std::span<const std::int64_t> offset, std::span<const std::int64_t> size, const TensorBox& target) {
  for (std::size_t dim = 0; dim < size.size(); ++dim)
    if (std::max(offset[dim], target.offset[dim]) >= std::min(offset[dim] + size[dim], target.offset[dim] + target.size[dim])) return false;
  return true;
}

std::uint64_t copy_common(const StoredBox& stored, const TensorBox& original, const std::function<void(std::size_t begin, std::size_t end)>& done) {
  const TensorBox target = with_dimension(original);
  const Index stored_offset = stored.offset.empty() ? Index{0} : Index(stored.offset.begin(), stored.offset.end());
  const Index stored_size = stored.size.empty() ? Index{1} : Index(stored.size.begin(), stored.size.end());
  Index first(target.size.size());
  Index last(target.size.size());
  if (!intersects(stored_offset, stored_size, target)) return 0;
  for (std::size_t dim = 0; dim < first.size(); ++dim) {
    first[dim] = std::max(stored_offset[dim], target.offset[dim]);
    last[dim] = std::min(stored_offset[dim] + stored_size[dim], target.offset[dim] + target.size[dim]);
  }
  const Index strides = row_major_strides(stored_size);
  const auto element = static_cast<std::int64_t>(size_of(stored.dtype));
  const auto target_element = static_cast<std::int64_t>(size_of(target.tensor.dtype));
  const std::int64_t row = last.back() - first.back();
  std::vector<std::byte> packed;
  std::uint64_t copied = 0;
  std::size_t released = 0;
  Index index = first;
  do {
    const auto begin = static_cast<std::size_t>(position(index, stored_offset, strides) * element);
    if (begin - released >= kDroppedAtOnce) {
      done(released, begin);
      released = begin;
    }
    copy_row(stored.bytes.data() + begin, stored.dtype, target, target.memory + position(index, target.offset, target.strides) * target_element, row,
             packed);
    copied += static_cast<std::uint64_t>(row);
  } while (next_row(index, first, last));
  done(released, stored.bytes.size());
  return copied;
}

}  // namespace tessera::checkpoint
