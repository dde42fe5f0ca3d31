#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/exchange.h"
#include "tessera/comm/work.h"
#include "tessera/core/error.h"

/// An exchange on its way between ranks: its state and what is said when it goes wrong. Plain data for whatever carries it; no MPI here.
namespace tessera::comm {

using Clock = std::chrono::steady_clock;

/// What is the same for all operations of a communicator.
struct GroupInfo {
  std::uint32_t id = 0;  ///< differs between any two groups that share a rank
  std::string name;
  std::vector<std::int64_t> members;  ///< global ranks
  int rank = 0;                       ///< of this process, in the group
};

/// What the issuing thread waits on; the carrying thread settles it once.
class Completion : public PendingOperation {
 public:
  void wait() override;
  bool done() const override { return state_.load(std::memory_order_acquire) != 0; }
  CompletionTime completed() const override { return completed_; }
  void succeed() { settle(1); }
  void fail(std::exception_ptr why);

 private:
  void settle(int state);

  std::atomic<int> state_{0};  ///< 1 succeeded, 2 failed
  std::exception_ptr why_;
  Clock::time_point completed_;  ///< written before `state_`, as `why_` is
};

/// Precedes the bytes of every transfer, so that the receiver can tell what the sender thinks it is doing.
struct Header {
  std::uint32_t group = 0;
  std::uint32_t phase = 0;
  std::uint64_t sequence = 0;
  std::int64_t bytes = 0;
  OperationDescription description;
};

/// One transfer under way.
struct Leg {
  Transfer transfer;
  std::unique_ptr<std::byte[]> head;  ///< the header, and behind it the bytes of a short transfer
  int messages = 0;                   ///< not complete yet
  bool heard = false;                 ///< the header has arrived
};

struct Flight {
  std::shared_ptr<const GroupInfo> group;
  std::uint64_t sequence = 0;  ///< counts the group's operations; for messages, those to or from the peer
  Exchange exchange;
  Clock::duration patience{};  ///< without any progress
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();

  std::size_t phase = 0;
  std::vector<Leg> sends;
  std::vector<Leg> receives;
  int messages = 0;  ///< of this phase, not complete yet
  bool over = false;
  Clock::time_point last_progress;
};

/// "rank 2: reduce_scatter of 12 float32, #17 over dp_shard (ranks 0 2 4 6)"; ranks are global.
std::string describe(const Flight& flight);
/// The header this rank sends with a transfer.
Header header_for(const Flight& flight, const Transfer& transfer);
/// Throws Failure when what `leg`'s peer sends is not what this rank expects of it.
void check_header(const Flight& flight, const Leg& leg, const Header& header);
/// What to throw when a peer's bytes do not fit.
Failure wrong_size(const Flight& flight, const Leg& leg);
/// What to throw when its patience has passed; names the peers that are silent.
Failure overdue(const Flight& flight);

}  // namespace tessera::comm
