#include "tessera/core/terminal.h"

#include <gmock/gmock.h>

namespace tessera {
namespace {

TEST(Terminal, ProgressBarPrintsNothingWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(stderr_is_terminal());
  {
    ProgressBar bar("loading", 100);
    for (std::uint64_t i = 0; i <= 100; ++i) bar.update(i, "loss 1.0");
    bar.advance(5);
    bar.clear();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tessera
