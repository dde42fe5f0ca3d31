#pragma once

namespace tessera {

/// While alive, SIGINT and SIGTERM only set a flag, so that a loop can finish its step and save. A second signal of either kind ends the process at
/// once. At most one guard at a time; the destructor restores the earlier handlers.
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
