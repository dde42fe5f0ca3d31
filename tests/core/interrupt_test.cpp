#include "tessera/core/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <thread>

namespace tessera {
namespace {

TEST(Interrupt, ASignalOnlySetsTheFlag) {
  const InterruptGuard guard;
  EXPECT_EQ(guard.signal(), 0);
  ::raise(SIGTERM);
  EXPECT_EQ(guard.signal(), SIGTERM);
}

TEST(Interrupt, ANewGuardForgetsTheOldSignal) {
  {
    const InterruptGuard guard;
    ::raise(SIGINT);
    EXPECT_EQ(guard.signal(), SIGINT);
  }
  const InterruptGuard guard;
  EXPECT_EQ(guard.signal(), 0);
}

/// As `timeout` does: to the process, and to its group.
TEST(Interrupt, TwoSignalsAtOnceAreOneRequest) {
  const InterruptGuard guard;
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  EXPECT_EQ(guard.signal(), SIGTERM);
}

void nothing(int) {}

TEST(Interrupt, TheDestructorRestoresTheHandlers) {
  const auto before = ::signal(SIGINT, nothing);
  {
    const InterruptGuard guard;
  }
  EXPECT_EQ(::signal(SIGINT, before), nothing);
}

TEST(InterruptDeathTest, ALaterSignalEndsTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        ::raise(SIGTERM);
        std::this_thread::sleep_for(kSameRequest + std::chrono::milliseconds(100));
        ::raise(SIGINT);
        std::exit(0);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(InterruptDeathTest, TwoGuardsAtOnceAreAMistake) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        const InterruptGuard one;
        const InterruptGuard two;
      },
      "only one InterruptGuard");
}

}  // namespace
}  // namespace tessera
