#include "tessera/checkpoint/box.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "checkpoint/contents.h"

namespace tessera::checkpoint {
namespace {

using Index = std::vector<std::int64_t>;

Index row_major(const Index& size) {
  Index strides(size.size(), 1);
  for (std::size_t dim = size.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * size[dim];
  return strides;
}

/// Memory of its own with a box over it.
struct OwnedBox {
  std::vector<float> values;
  TensorBox box;
  OwnedBox(const Index& shape, const Index& offset, const Index& size, const Index& strides)
      : values(formats::num_elements(size), -1.0f),
        box{{"w", DType::F32, shape}, offset, size, reinterpret_cast<std::byte*>(values.data()), strides} {}
};

// The element at a global index has the value of its row-major number.
float& element(OwnedBox& box, const Index& local) {
  std::int64_t position = 0;
  for (std::size_t dim = 0; dim < local.size(); ++dim) position += local[dim] * box.box.strides[dim];
  return box.values[static_cast<std::size_t>(position)];
}

template <class Visit>
void for_each_index(const Index& size, const Visit& visit) {
  Index index(size.size(), 0);
  for (std::uint64_t n = 0; n < formats::num_elements(size); ++n) {
    visit(index);
    for (std::size_t dim = size.size(); dim-- > 0;) {
      if (++index[dim] < size[dim]) break;
      index[dim] = 0;
    }
  }
}

float global_number(const OwnedBox& box, const Index& local) {
  const Index strides = row_major(box.box.tensor.shape);
  std::int64_t number = 0;
  for (std::size_t dim = 0; dim < local.size(); ++dim) number += (box.box.offset[dim] + local[dim]) * strides[dim];
  return static_cast<float>(number);
}

Index transposed_strides(const Index& size) { return {1, size[0]}; }

/// Every way to cut [6, 5] into boxes of `height` × `width`.
std::vector<OwnedBox> cut(std::int64_t height, std::int64_t width, bool transposed) {
  std::vector<OwnedBox> boxes;
  for (std::int64_t row = 0; row < 6; row += height)
    for (std::int64_t column = 0; column < 5; column += width) {
      const Index size = {std::min<std::int64_t>(height, 6 - row), std::min<std::int64_t>(width, 5 - column)};
      boxes.emplace_back(Index{6, 5}, Index{row, column}, size, transposed ? transposed_strides(size) : row_major(size));
    }
  return boxes;
}

TEST(BoxTest, AnyCutReadsFromAnyOther) {
  for (const bool from_transposed : {false, true})
    for (const bool to_transposed : {false, true})
      for (const auto& [from, to] : {std::pair(Index{6, 5}, Index{2, 5}), {{2, 5}, {3, 5}}, {{4, 2}, {1, 3}}, {{1, 1}, {6, 5}}, {{6, 2}, {4, 5}}}) {
        std::vector<OwnedBox> sources = cut(from[0], from[1], from_transposed);
        std::vector<OwnedBox> targets = cut(to[0], to[1], to_transposed);
        for (OwnedBox& source : sources)
          for_each_index(source.box.size, [&](const Index& index) { element(source, index) = global_number(source, index); });
        for (OwnedBox& target : targets) {
          std::uint64_t copied = 0;
          for (OwnedBox& source : sources) {
            const std::vector<std::byte> bytes = test::bytes_of(source.box);
            copied += copy_common({DType::F32, source.box.offset, source.box.size, bytes}, target.box, [](std::size_t, std::size_t) {});
          }
          EXPECT_EQ(copied, target.box.num_elements());
          for_each_index(target.box.size, [&](const Index& index) { EXPECT_EQ(element(target, index), global_number(target, index)); });
        }
      }
}

TEST(BoxTest, ConvertsOnTheWay) {
  const std::vector<std::uint16_t> stored = {float_to_bfloat16(1.5f), float_to_bfloat16(-2.0f), float_to_bfloat16(3.0f), float_to_bfloat16(4.0f)};
  OwnedBox target({2, 2}, {0, 0}, {2, 2}, {1, 2});
  const Index offset = {0, 0};
  copy_common({DType::BF16, offset, target.box.size, std::as_bytes(std::span(stored))}, target.box, [](std::size_t, std::size_t) {});
  EXPECT_EQ(target.values, (std::vector<float>{1.5f, 3.0f, -2.0f, 4.0f}));
}

TEST(BoxTest, ScalarsAndEmptyTensors) {
  OwnedBox scalar({}, {}, {}, {});
  scalar.values = {42.0f};
  scalar.box.memory = reinterpret_cast<std::byte*>(scalar.values.data());
  const std::vector<std::byte> bytes = test::bytes_of(scalar.box);
  ASSERT_EQ(bytes.size(), 4u);
  OwnedBox target({}, {}, {}, {});
  EXPECT_EQ(copy_common({DType::F32, {}, {}, bytes}, target.box, [](std::size_t, std::size_t) {}), 1u);
  EXPECT_EQ(target.values[0], 42.0f);
  EXPECT_TRUE(test::bytes_of(OwnedBox({0, 5}, {0, 0}, {0, 5}, {5, 1}).box).empty());
}

TEST(BoxTest, SaysWhichBytesAreDoneWith) {
  const Index offset = {0, 0};
  const Index size = {3000, 1000};
  const std::vector<std::byte> bytes(12'000'000);
  OwnedBox target(size, offset, size, row_major(size));
  std::vector<std::size_t> ends = {0};
  copy_common({DType::F32, offset, size, bytes}, target.box, [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin, ends.back());
    ends.push_back(end);
  });
  EXPECT_GE(ends.size(), 3u);
  EXPECT_EQ(ends.back(), bytes.size());
}

}  // namespace
}  // namespace tessera::checkpoint
