#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/launch/launcher.h"
#include "tessera/comm/launch/mpirun.h"
#include "tessera/comm/launch/protocol.h"

namespace tessera::launch {

/// Watches the ranks that `mpirun` started until all have ended. Internal to this folder; launcher.h has the contract.
class Supervisor {
 public:
  /// Opens the socket; SIGINT, SIGTERM and SIGCHLD of this thread are blocked and read from a descriptor until the destructor.
  explicit Supervisor(const LaunchRequest& request);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// The socket's name, for the ranks.
  const std::string& name() const { return name_; }
  /// Returns the run's exit status.
  int watch(ChildProcess mpirun);

 private:
  using Clock = std::chrono::steady_clock;

  /// One rank's process, from its connection on.
  struct Rank {
    FileDescriptor socket;  ///< open while the process lives
    FileDescriptor lines;   ///< what it prints on standard error; rank 0 has the launcher's
    pid_t pid = -1;
    std::int64_t number = -1;
    bool said_goodbye = false;
    std::string partial_line;
    std::deque<std::string> last_lines;
  };
  /// Why the run ended.
  struct Cause {
    std::int64_t rank = -1;
    std::string error;  ///< as the rank reported it; empty: it died without a message
    std::vector<std::string> last_lines;
    int status = 1;
    std::int64_t num_ranks = 0;  ///< that reported this error as their own
  };

  void wait_for_events();
  void accept_rank();
  void hear(Rank& rank);
  void greet(Rank& rank, const std::string& number);
  void lose(Rank& rank);
  void report(const Rank& rank, const std::string& message);
  void fail(const Rank& rank, std::string error, int status);
  void show_lines(Rank& rank);
  void show(Rank& rank, const std::string& line);
  void read_mpirun();
  void take_signals();
  void signal_ranks(int number);
  void enforce_deadline();
  bool finished() const;
  int conclude();
  void print_cause(const Cause& cause) const;
  std::string death(const Cause& cause) const;
  std::vector<std::string> quoted_lines(const Cause& cause) const;

  const LaunchRequest& request_;
  std::string name_;
  FileDescriptor listener_;
  FileDescriptor signals_;
  ChildProcess mpirun_;
  bool mpirun_ended_ = false;
  bool mpirun_abandoned_ = false;  ///< killed because it went on long after all ranks had ended
  int mpirun_status_ = 0;
  std::string mpirun_said_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::optional<Cause> cause_;
  int interrupted_by_ = 0;
  Clock::time_point interrupted_at_;
  std::optional<Clock::time_point> deadline_;  ///< when what is left is killed
};

}  // namespace tessera::launch
