#include "tessera/core/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "support/support.h"

namespace tessera {
namespace {

TEST(Memory, GrowsWithWhatIsTouchedAndRemembersThePeak) {
  constexpr std::size_t kBytes = 64 << 20;
  const std::uint64_t before = test::resident_bytes();
  ASSERT_GT(before, 0U);
  {
    const auto block = std::make_unique_for_overwrite<char[]>(kBytes);
    std::memset(block.get(), 1, kBytes);
    EXPECT_GE(test::resident_bytes(), before + kBytes / 2);
  }
  EXPECT_GE(peak_resident_bytes(), before + kBytes / 2);
  EXPECT_GE(peak_resident_bytes(), test::resident_bytes());
}

}  // namespace
}  // namespace tessera
