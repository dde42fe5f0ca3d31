#include "tessera/comm/flight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tessera::comm {
namespace {

constexpr const char* kSameOperations = "all ranks of a group issue the same operations with the same types and counts, in the same order";
constexpr const char* kDivergence = "look for a condition in which the ranks differ before this operation";

std::int64_t global_rank(const Flight& flight, int peer) { return flight.group->members[static_cast<std::size_t>(peer)]; }

/// Global ranks of the transfers that are not complete.
std::vector<std::int64_t> open_peers(const Flight& flight, const std::vector<Leg>& legs, bool heard) {
  std::vector<std::int64_t> peers;
  for (const Leg& leg : legs)
    if (leg.messages > 0 && leg.heard == heard) peers.push_back(global_rank(flight, leg.transfer.peer));
  std::ranges::sort(peers);
  return peers;
}

std::string list_of(std::string_view what, const std::vector<std::int64_t>& ranks) {
  if (ranks.empty()) return "";
  return fmt::format("; {} {} {}", what, ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, " "));
}

}  // namespace

void Completion::wait() {
  state_.wait(0, std::memory_order_acquire);
  if (why_) std::rethrow_exception(why_);
}

void Completion::fail(std::exception_ptr why) {
  why_ = std::move(why);
  settle(2);
}

void Completion::settle(int state) {
  completed_ = Clock::now();
  state_.store(state, std::memory_order_release);
  state_.notify_all();
}

std::string describe(const Flight& flight) {
  const GroupInfo& group = *flight.group;
  return fmt::format("rank {}: {}, #{} over {} (ranks {})", global_rank(flight, group.rank), to_string(flight.exchange.description), flight.sequence,
                     group.name, fmt::join(group.members, " "));
}

Header header_for(const Flight& flight, const Transfer& transfer) {
  return {flight.group->id, static_cast<std::uint32_t>(flight.phase), flight.sequence, transfer.bytes, flight.exchange.description};
}

void check_header(const Flight& flight, const Leg& leg, const Header& header) {
  const std::int64_t peer = global_rank(flight, leg.transfer.peer);
  const Header expected = header_for(flight, leg.transfer);
  if (!header.description.matches(expected.description)) {
    throw Failure(
        {"", fmt::format("{}: rank {} issued {} instead", describe(flight), peer, to_string(header.description)), kSameOperations, kDivergence});
  }
  if (header.sequence != expected.sequence || header.group != expected.group || header.phase != expected.phase) {
    throw Failure({"", fmt::format("{}: rank {} is at its operation #{}", describe(flight), peer, header.sequence), kSameOperations, kDivergence});
  }
  if (header.bytes != expected.bytes) {
    throw Failure({"", fmt::format("{}: rank {} sends {} bytes where {} are expected", describe(flight), peer, header.bytes, expected.bytes),
                   kSameOperations, kDivergence});
  }
}

Failure wrong_size(const Flight& flight, const Leg& leg) {
  return Failure({"",
                  fmt::format("{}: rank {} sends another number of bytes than the {} expected", describe(flight),
                              global_rank(flight, leg.transfer.peer), leg.transfer.bytes),
                  kSameOperations, kDivergence});
}

Failure overdue(const Flight& flight) {
  const double seconds = std::chrono::duration<double>(flight.patience).count();
  return Failure({"",
                  fmt::format("{}: nothing has moved for {:.3g} s{}{}{}", describe(flight), seconds,
                              list_of("nothing heard from", open_peers(flight, flight.receives, false)),
                              list_of("not everything arrived from", open_peers(flight, flight.receives, true)),
                              list_of("not yet taken by", open_peers(flight, flight.sends, false))),
                  "every rank of the group issues the operation within dist_env.timeout_minutes",
                  "see what those ranks said last; if they are only slow, raise dist_env.timeout_minutes"});
}

}  // namespace tessera::comm
