#pragma once

#include <chrono>

namespace tessera {

/// Signals so soon after the first one belong to the same request: `timeout` and terminals signal a process and, once more, its whole group.
inline constexpr std::chrono::seconds kSameRequest{1};

/// While alive, SIGINT and SIGTERM only set a flag, so that a loop can finish its step and save. A later signal of either kind (not within
/// kSameRequest) ends the process at once. At most one guard at a time; the destructor restores the earlier handlers.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// The signal that arrived, or 0.
  int signal() const;
};

}  // namespace tessera
