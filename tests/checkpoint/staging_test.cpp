#include "tessera/checkpoint/staging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>

#include "checkpoint/contents.h"

namespace tessera::checkpoint {
namespace {

/// A box of bf16 elements, which count up.
struct Source {
  std::vector<std::uint16_t> elements;
  TensorBox box;

  Source(std::vector<std::int64_t> size, std::vector<std::int64_t> strides) {
    std::int64_t last = 0;
    for (std::size_t dim = 0; dim < size.size(); ++dim) last += std::max<std::int64_t>(size[dim] - 1, 0) * strides[dim];
    elements.resize(static_cast<std::size_t>(last) + 1);
    std::iota(elements.begin(), elements.end(), std::uint16_t{1});
    box = {.tensor = {"tensor", DType::BF16, size},
           .offset = std::vector<std::int64_t>(size.size()),
           .size = size,
           .memory = reinterpret_cast<std::byte*>(elements.data()),
           .strides = std::move(strides)};
  }
};

/// Boxes below, at, and above the size of one chunk (4 MiB), of which the largest ends in a part of one; transposed; with gaps; empty; of one
/// element.
std::vector<Source> sources() {
  std::vector<Source> all;
  all.emplace_back(std::vector<std::int64_t>{3, 5}, std::vector<std::int64_t>{5, 1});
  all.emplace_back(std::vector<std::int64_t>{2048, 1024}, std::vector<std::int64_t>{1024, 1});
  all.emplace_back(std::vector<std::int64_t>{4611, 1027}, std::vector<std::int64_t>{1027, 1});
  all.emplace_back(std::vector<std::int64_t>{1500, 1501}, std::vector<std::int64_t>{1, 1500});
  all.emplace_back(std::vector<std::int64_t>{70, 30}, std::vector<std::int64_t>{41, 1});
  all.emplace_back(std::vector<std::int64_t>{0, 8}, std::vector<std::int64_t>{8, 1});
  all.emplace_back(std::vector<std::int64_t>{1}, std::vector<std::int64_t>{1});
  return all;
}

TEST(Staging, HoldsWhatTheBoxesHeld) {
  Staging staging;
  for (int time = 0; time < 2; ++time) {  // the second time into the same memory
    std::vector<Source> all = sources();
    std::vector<TensorBox*> boxes;
    std::vector<std::vector<std::byte>> expected;
    for (Source& source : all) {
      if (time == 1) std::ranges::reverse(source.elements);
      expected.push_back(test::bytes_of(source.box));
      boxes.push_back(&source.box);
    }
    staging.copy(boxes);
    for (Source& source : all) std::ranges::fill(source.elements, std::uint16_t{0});  // training goes on
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(test::bytes_of(*boxes[i]) == expected[i]) << "box " << i << ", time " << time;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(boxes[i]->memory) % 64, 0U);
    }
  }
}

}  // namespace
}  // namespace tessera::checkpoint
