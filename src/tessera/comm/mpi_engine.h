#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "tessera/comm/flight.h"

namespace tessera::comm {

struct MpiOptions {
  double timeout_seconds = 60.0;                          ///< an operation without progress for so long fails
  std::int64_t largest_message = std::int64_t{16} << 20;  ///< bytes; longer transfers are cut. Less than 2^31
};

/// This process among the others.
struct MpiWorld {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_size = 1;
};

/// Owns MPI: its thread initialises it, makes every call and finalises it, so that operations move while the program computes. The thread sleeps when
/// nothing moves: 500 yields, then 20 µs growing to 1 ms; a new request wakes it.
/// One per process, ever: MPI cannot be started again.
class MpiEngine {
 public:
  explicit MpiEngine(const MpiOptions& options);
  /// Waits for every rank to get here and finalises MPI. After a failed operation waits no longer than the timeout, and when an exception is under
  /// way not at all; MPI is then left as it is, and mpirun ends the other ranks.
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  const MpiWorld& world() const { return world_; }
  /// Starts an exchange. `sequence` counts the group's operations (for messages, those with the peer).
  std::shared_ptr<PendingOperation> submit(std::shared_ptr<const GroupInfo> group, std::uint64_t sequence, Exchange exchange);
  /// Agrees on a number that no other group of any of its members has; `group.id` is ignored. All members call it, in the same order of calls.
  std::shared_ptr<const GroupInfo> make_group(GroupInfo group);
  /// For the operations that are submitted from now on.
  void set_timeout(double seconds) { options_.timeout_seconds = seconds; }
  [[noreturn]] void abort(int status);

 private:
  struct Shared;

  void run(Shared& shared);
  std::shared_ptr<PendingOperation> submit(std::shared_ptr<Flight> flight);
  Clock::duration timeout() const;
  bool all_arrive_at_the_end();

  MpiOptions options_;
  MpiWorld world_;
  std::uint32_t next_group_ = 1;  ///< 0 is the making of groups
  int exceptions_at_start_;
  std::unique_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace tessera::comm
