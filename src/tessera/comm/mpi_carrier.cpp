#include "tessera/comm/mpi_carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera::comm {
namespace {

/// Transfers up to this size travel in the header's message.
constexpr std::int64_t kShortTransfer = 4096;
constexpr std::int64_t kHeadBytes = static_cast<std::int64_t>(sizeof(Header)) + kShortTransfer;
static_assert(std::is_trivially_copyable_v<Header>);

// A tag is group, sequence number modulo a power of two, phase: the numbers of operations under way at once do not meet again.
constexpr unsigned kPhaseBits = 2;
constexpr unsigned kGroupBits = 12;
/// Of messages between two ranks, which have sequence numbers of their own.
constexpr unsigned kMessagePhase = 3;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Failure({"", fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))), "", ""});
}

/// Tags reach from 0 to a bound that MPI tells: at least 32767, mostly far more.
unsigned tag_bits(MPI_Comm communicator) {
  void* bound = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&bound), &found), "MPI_Comm_get_attr");
  const unsigned largest = found != 0 ? static_cast<unsigned>(*static_cast<int*>(bound)) : 32767U;
  return std::min(30U, static_cast<unsigned>(std::bit_width(largest + 1U)) - 1U);
}

bool is_message(const Flight& flight) {
  const OperationKind kind = flight.exchange.description.kind;
  return kind == OperationKind::Send || kind == OperationKind::Receive;
}

}  // namespace

MpiCarrier::MpiCarrier(MPI_Comm communicator, std::int64_t largest_message) : communicator_(communicator), largest_message_(largest_message) {
  const unsigned bits = tag_bits(communicator);
  if (bits <= kGroupBits + kPhaseBits) throw Failure({"", fmt::format("this MPI allows only {} bits in a message's tag", bits), "", "use Open MPI"});
  sequence_bits_ = bits - kGroupBits - kPhaseBits;
}

int MpiCarrier::tag_of(const Flight& flight) const {
  const std::uint64_t sequence = flight.sequence & ((std::uint64_t{1} << sequence_bits_) - 1);
  const std::uint64_t phase = is_message(flight) ? kMessagePhase : flight.phase;
  return static_cast<int>(((std::uint64_t{flight.group->id} << sequence_bits_ | sequence) << kPhaseBits) | phase);
}

void MpiCarrier::start(std::shared_ptr<Flight> flight) {
  TESSERA_ASSERT(flight->group->id < (1U << kGroupBits), "too many groups of ranks");
  TESSERA_ASSERT(flight->exchange.phases.size() <= kMessagePhase, "too many phases");
  flight->last_progress = Clock::now();
  flights_.push_back(flight);
  start_phase(flight);
  finish_phases(flight);
}

void MpiCarrier::start_phase(const std::shared_ptr<Flight>& flight) try {
  const Phase& phase = flight->exchange.phases[flight->phase];
  flight->sends.clear();
  flight->receives.clear();
  // Receives first, so that nothing a fast peer sends is kept aside.
  for (const Transfer& transfer : phase.receives) {
    flight->receives.emplace_back().transfer = transfer;
    post_receive_of_head(flight, flight->receives.size() - 1);
  }
  if (phase.prepare) phase.prepare();
  for (const Transfer& transfer : phase.sends) {
    if (transfer.prepare) transfer.prepare();
    flight->sends.emplace_back().transfer = transfer;
    post_send(flight, flight->sends.size() - 1);
  }
} catch (...) {
  fail(*flight, std::current_exception());
}

MPI_Request& MpiCarrier::add_message(const std::shared_ptr<Flight>& flight, MessageKind kind, std::size_t leg, std::int64_t bytes) {
  messages_.push_back({flight, kind, leg, static_cast<int>(bytes)});
  ++flight->messages;
  ++(kind == MessageKind::Sent ? flight->sends : flight->receives)[leg].messages;
  return requests_.emplace_back(MPI_REQUEST_NULL);
}

/// Calls post(address, bytes) for each message of a long transfer.
template <class Post>
void MpiCarrier::post_bytes(const Transfer& transfer, const Post& post) const {
  if (transfer.bytes <= kShortTransfer) return;
  for (std::int64_t at = 0; at < transfer.bytes; at += largest_message_) post(transfer.data + at, std::min(largest_message_, transfer.bytes - at));
}

void MpiCarrier::post_send(const std::shared_ptr<Flight>& flight, std::size_t index) {
  Leg& leg = flight->sends[index];
  const Transfer& transfer = leg.transfer;
  const int peer = static_cast<int>(flight->group->members[static_cast<std::size_t>(transfer.peer)]);
  const Header header = header_for(*flight, transfer);
  const std::size_t inside = transfer.bytes <= kShortTransfer ? static_cast<std::size_t>(transfer.bytes) : 0;
  leg.head = std::make_unique_for_overwrite<std::byte[]>(sizeof header + inside);
  std::memcpy(leg.head.get(), &header, sizeof header);
  if (inside > 0) std::memcpy(leg.head.get() + sizeof header, transfer.data, inside);
  const auto post = [&](const std::byte* data, std::int64_t bytes) {
    MPI_Request& request = add_message(flight, MessageKind::Sent, index, bytes);
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag_of(*flight), communicator_, &request), "MPI_Isend");
  };
  post(leg.head.get(), static_cast<std::int64_t>(sizeof header + inside));
  post_bytes(transfer, post);
}

/// The header alone, with room for a short transfer, so that it arrives whatever the peer sends.
void MpiCarrier::post_receive_of_head(const std::shared_ptr<Flight>& flight, std::size_t index) {
  Leg& leg = flight->receives[index];
  leg.head = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(kHeadBytes));
  post_receive(flight, MessageKind::Head, index, leg.head.get(), kHeadBytes);
}

void MpiCarrier::post_receive(const std::shared_ptr<Flight>& flight, MessageKind kind, std::size_t index, std::byte* data, std::int64_t bytes) {
  const int peer = static_cast<int>(flight->group->members[static_cast<std::size_t>(flight->receives[index].transfer.peer)]);
  MPI_Request& request = add_message(flight, kind, index, bytes);
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag_of(*flight), communicator_, &request), "MPI_Irecv");
}

bool MpiCarrier::poll() {
  int count = 0;
  if (requests_.empty()) {
    // Messages that MPI has buffered for sending still need it to work.
    int flag = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &flag, MPI_STATUS_IGNORE), "MPI_Iprobe");
    return false;
  }
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(), statuses_.data());
  if (result != MPI_ERR_IN_STATUS) check(result, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  collect_completed(count);
  for (int i = 0; i < count; ++i) {
    MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    take(taken_[static_cast<std::size_t>(i)], status, result == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS);
  }
  taken_.clear();
  return true;
}

/// Moves the completed messages to `taken_`, in MPI's order. Taking one may post others, so the lists must be whole again before that.
void MpiCarrier::collect_completed(int count) {
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    taken_.push_back(std::move(messages_[at]));
    requests_[at] = MPI_REQUEST_NULL;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    if (kept != i) messages_[kept] = std::move(messages_[i]);
    ++kept;
  }
  requests_.resize(kept);
  messages_.resize(kept);
}

void MpiCarrier::take(const Message& message, MPI_Status& status, bool failed) {
  Flight& flight = *message.flight;
  --flight.messages;
  if (flight.over) return;
  Leg& leg = (message.kind == MessageKind::Sent ? flight.sends : flight.receives)[message.leg];
  --leg.messages;
  flight.last_progress = Clock::now();
  try {
    if (failed) throw wrong_size(flight, leg);
    if (message.kind == MessageKind::Head) take_head(message.flight, message.leg, status);
    if (message.kind == MessageKind::Bytes) {
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (bytes != message.bytes) throw wrong_size(flight, leg);
    }
  } catch (...) {
    return fail(flight, std::current_exception());
  }
  finish_phases(message.flight);
}

void MpiCarrier::take_head(const std::shared_ptr<Flight>& flight, std::size_t index, MPI_Status& status) {
  Leg& leg = flight->receives[index];
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes < static_cast<int>(sizeof(Header))) throw wrong_size(*flight, leg);
  Header header;
  std::memcpy(static_cast<void*>(&header), leg.head.get(), sizeof header);
  leg.heard = true;
  check_header(*flight, leg, header);
  if (leg.transfer.bytes > 0 && leg.transfer.bytes <= kShortTransfer)
    std::memcpy(leg.transfer.data, leg.head.get() + sizeof header, static_cast<std::size_t>(leg.transfer.bytes));
  leg.head.reset();
  // Only now: Open MPI writes past the end of a buffer that is shorter than a message that it takes from another process's memory.
  post_bytes(leg.transfer, [&](std::byte* data, std::int64_t size) { post_receive(flight, MessageKind::Bytes, index, data, size); });
}

/// Goes on to the next phase when this one's messages are complete, and so on to the end.
void MpiCarrier::finish_phases(const std::shared_ptr<Flight>& flight) {
  while (!flight->over && flight->messages == 0) {
    try {
      const Phase& phase = flight->exchange.phases[flight->phase];
      if (phase.finish) phase.finish();
    } catch (...) {
      return fail(*flight, std::current_exception());
    }
    if (++flight->phase == flight->exchange.phases.size()) return end(*flight);
    start_phase(flight);
  }
}

void MpiCarrier::end(Flight& flight) {
  flight.over = true;
  // Before the waiting thread goes on, so that it finds the memory free.
  flight.exchange = {};
  flight.sends.clear();
  flight.receives.clear();
  flight.completion->succeed();
  std::erase_if(flights_, [&](const auto& other) { return other.get() == &flight; });
}

/// Its memory stays until MPI has let go of it.
void MpiCarrier::fail(Flight& flight, std::exception_ptr why) {
  has_failed_ = true;
  flight.over = true;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (messages_[i].flight.get() == &flight && messages_[i].kind != MessageKind::Sent && requests_[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_[i]);
  flight.completion->fail(std::move(why));
  std::erase_if(flights_, [&](const auto& other) { return other.get() == &flight; });
}

void MpiCarrier::fail_overdue(Clock::time_point now) {
  const auto flights = flights_;  // failing one removes it
  for (const auto& flight : flights)
    if (now - flight->last_progress > flight->patience) fail(*flight, std::make_exception_ptr(overdue(*flight)));
}

void MpiCarrier::fail_all(const std::exception_ptr& why) {
  const auto flights = flights_;
  for (const auto& flight : flights) fail(*flight, why);
}

}  // namespace tessera::comm
