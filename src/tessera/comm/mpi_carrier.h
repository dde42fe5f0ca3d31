#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/flight.h"
#include "tessera/comm/mpi_library.h"

namespace tessera::comm {

/// Moves flights by non-blocking MPI messages; used by one thread. A transfer is a header, with the bytes behind it when they are few, else with the
/// bytes following in messages of at most `largest_message` bytes. Messages of one operation and phase share a tag, and MPI keeps their order.
class MpiCarrier {
 public:
  /// `communicator` connects all ranks: a message's group, sequence number and phase are in its tag.
  MpiCarrier(MPI_Comm communicator, std::int64_t largest_message);

  void start(std::shared_ptr<Flight> flight);
  /// Lets MPI work and takes what has completed; whether anything has.
  bool poll();
  /// Fails the flights whose patience has passed.
  void fail_overdue(Clock::time_point now);
  /// Fails every flight.
  void fail_all(const std::exception_ptr& why);

  bool has_flights() const { return !flights_.empty(); }
  bool has_messages() const { return !requests_.empty(); }
  bool has_failed() const { return has_failed_; }

 private:
  enum class MessageKind : std::uint8_t { Sent, Head, Bytes };
  struct Message {
    std::shared_ptr<Flight> flight;
    MessageKind kind{};
    std::size_t leg = 0;
    int bytes = 0;
  };

  void start_phase(const std::shared_ptr<Flight>& flight);
  void post_send(const std::shared_ptr<Flight>& flight, std::size_t leg);
  void post_receive_of_head(const std::shared_ptr<Flight>& flight, std::size_t leg);
  void post_receive(const std::shared_ptr<Flight>& flight, MessageKind kind, std::size_t leg, std::byte* data, std::int64_t bytes);
  template <class Post>
  void post_bytes(const Transfer& transfer, const Post& post) const;
  MPI_Request& add_message(const std::shared_ptr<Flight>& flight, MessageKind kind, std::size_t leg, std::int64_t bytes);
  void take(const Message& message, MPI_Status& status, bool failed);
  void take_head(const std::shared_ptr<Flight>& flight, std::size_t leg, MPI_Status& status);
  void finish_phases(const std::shared_ptr<Flight>& flight);
  void end(Flight& flight);
  void fail(Flight& flight, std::exception_ptr why);
  void collect_completed(int count);
  int tag_of(const Flight& flight) const;

  MPI_Comm communicator_;
  std::int64_t largest_message_;
  unsigned sequence_bits_;
  std::vector<std::shared_ptr<Flight>> flights_;  ///< not over
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  ///< of requests_
  std::vector<int> completed_;     ///< room for MPI's answers
  std::vector<MPI_Status> statuses_;
  std::vector<Message> taken_;
  bool has_failed_ = false;
};

}  // namespace tessera::comm
