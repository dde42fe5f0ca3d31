#include "tessera/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tessera/core/error.h"

namespace tessera {
namespace {

// A signal handler can reach nothing but statics.
std::atomic<int> received{0};
std::atomic<std::chrono::steady_clock::rep> first_at{0};  // 0: none yet
std::atomic<bool> guarded{false};
struct sigaction previous_interrupt;
struct sigaction previous_terminate;

void on_signal(int number) {
  using Clock = std::chrono::steady_clock;  // reads CLOCK_MONOTONIC, which a handler may
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep first = 0;  // two signals may be handled by two threads at once
  if (first_at.compare_exchange_strong(first, now))
    received = number;
  else if (Clock::duration(now - first) > kSameRequest)
    ::_exit(128 + number);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  TESSERA_ASSERT(!guarded.exchange(true), "only one InterruptGuard may live at a time");
  received = 0;
  first_at = 0;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &previous_interrupt);
  ::sigaction(SIGTERM, &action, &previous_terminate);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &previous_interrupt, nullptr);
  ::sigaction(SIGTERM, &previous_terminate, nullptr);
  guarded = false;
}

int InterruptGuard::signal() const { return received; }

}  // namespace tessera
