#include "tessera/core/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

/// Every byte of the region, and none around it, whatever the size and the alignment of either side.
TEST(StreamCopy, CopiesTheRegionAndNothingElse) {
  constexpr std::size_t kMargin = 128;
  for (const std::size_t size : {0, 1, 63, 64, 65, 4096, 16383, 16384, 16385, 16384 * 3 + 77}) {
    for (const std::size_t to_offset : {0, 1, 16, 63}) {
      for (const std::size_t from_offset : {0, 5}) {
        std::vector<std::byte> from(size + from_offset);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 131 >> 3);
        std::vector<std::byte> to(size + 2 * kMargin, std::byte{0xEE}), expected = to;
        std::copy(from.begin() + static_cast<std::ptrdiff_t>(from_offset), from.end(), expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        stream_copy(to.data() + to_offset, from.data() + from_offset, size);
        EXPECT_EQ(to, expected) << size << " bytes, offsets " << to_offset << " and " << from_offset;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
