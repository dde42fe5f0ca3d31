#include "tessera/comm/exchange.h"

#include <cstring>

#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

/// Up to this many bytes an all-reduce takes one phase instead of two, and a broadcast comes straight from its root.
constexpr std::int64_t kShortReduction = 4096;
constexpr std::int64_t kShortBroadcast = 65536;

std::int64_t bytes_of(DType dtype, std::int64_t count) { return count * static_cast<std::int64_t>(size_of(dtype)); }

std::byte* at_element(const Elements& elements, std::int64_t index) {
  return static_cast<std::byte*>(elements.data) + bytes_of(elements.dtype, index);
}

/// Uninitialised memory that the exchange keeps until it is over.
Elements scratch(Exchange& exchange, DType dtype, std::int64_t count) {
  const auto memory = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes_of(dtype, count)));
  exchange.kept.push_back(memory);
  return {memory.get(), dtype, count};
}

/// Ranks other than this one, starting after it, so that not everyone talks to rank 0 first.
std::vector<int> peers_of(Place place) {
  std::vector<int> peers;
  for (int step = 1; step < place.size; ++step) peers.push_back((place.rank + step) % place.size);
  return peers;
}

/// Where each rank's part begins, and the end: counts.size() + 1 numbers.
std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> counts) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

/// Nearly equal parts.
std::vector<std::int64_t> even_counts(std::int64_t count, int size) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < size; ++rank) counts.push_back(count * (rank + 1) / size - count * rank / size);
  return counts;
}

Transfer part_of(const Elements& elements, int peer, std::span<const std::int64_t> offsets) {
  const auto at = static_cast<std::size_t>(peer);
  return {peer, at_element(elements, offsets[at]), bytes_of(elements.dtype, offsets[at + 1] - offsets[at])};
}

/// Everyone sends its own part of `elements` to everyone else.
Phase gather_phase(Place place, const Elements& elements, std::span<const std::int64_t> offsets) {
  Phase phase;
  for (const int peer : peers_of(place)) {
    Transfer own = part_of(elements, place.rank, offsets);
    own.peer = peer;
    phase.sends.push_back(own);
    phase.receives.push_back(part_of(elements, peer, offsets));
  }
  return phase;
}

/// Each rank's contribution to one stretch of `count` elements: the peers' lie in scratch memory one after another, this rank's own somewhere else.
std::vector<Part> parts_in_rank_order(Place place, const Elements& received, std::int64_t count, const Part& own) {
  std::vector<Part> parts;
  std::int64_t slot = 0;
  for (int rank = 0; rank < place.size; ++rank) {
    parts.push_back(rank == place.rank ? own : Part{at_element(received, count * slot++), received.dtype});
  }
  return parts;
}

/// Receives of `count` elements from every peer into consecutive slots, in rank order.
std::vector<Transfer> receives_into_slots(Place place, const Elements& received, std::int64_t count) {
  std::vector<Transfer> receives;
  std::int64_t slot = 0;
  for (int rank = 0; rank < place.size; ++rank) {
    if (rank != place.rank) receives.push_back({rank, at_element(received, count * slot++), bytes_of(received.dtype, count)});
  }
  return receives;
}

/// Where the tensor is in its wire dtype: itself when that is its own, else scratch memory that is still to be filled (`rounding`).
Elements on_the_wire(Exchange& exchange, const Elements& tensor, DType wire) {
  return wire == tensor.dtype ? tensor : scratch(exchange, wire, tensor.count);
}

/// Fills a stretch of `rounded`, which is `tensor` on the wire.
std::function<void()> rounding(const Elements& tensor, const Elements& rounded, std::int64_t first, std::int64_t count) {
  if (rounded.dtype == tensor.dtype) return {};
  return [=] { round_elements(at_element(tensor, first), tensor.dtype, at_element(rounded, first), rounded.dtype, count); };
}

/// Every peer's part of `tensor`, rounded on the way.
std::vector<Transfer> sends_of_parts(Place place, const Elements& tensor, const Elements& rounded, std::span<const std::int64_t> offsets) {
  std::vector<Transfer> sends;
  for (const int peer : peers_of(place)) {
    const auto at = static_cast<std::size_t>(peer);
    sends.push_back(part_of(rounded, peer, offsets));
    sends.back().prepare = rounding(tensor, rounded, offsets[at], offsets[at + 1] - offsets[at]);
  }
  return sends;
}

void short_all_reduce(Exchange& exchange, Place place, const Elements& tensor, ReduceOperation operation, DType wire) {
  Phase phase;
  const Elements own = on_the_wire(exchange, tensor, wire);
  phase.prepare = rounding(tensor, own, 0, tensor.count);
  const Elements received = scratch(exchange, wire, tensor.count * (place.size - 1));
  for (const int peer : peers_of(place)) phase.sends.push_back({peer, at_element(own, 0), bytes_of(wire, tensor.count)});
  phase.receives = receives_into_slots(place, received, tensor.count);
  phase.finish = [=] {
    reduce_parts(parts_in_rank_order(place, received, tensor.count, {own.data, wire}), operation, own.data, wire, tensor.count);
    round_elements(own.data, wire, tensor.data, tensor.dtype, tensor.count);
  };
  exchange.phases.push_back(std::move(phase));
}

void long_all_reduce(Exchange& exchange, Place place, const Elements& tensor, ReduceOperation operation, DType wire) {
  const std::vector<std::int64_t> offsets = offsets_of(even_counts(tensor.count, place.size));
  const std::int64_t first = offsets[static_cast<std::size_t>(place.rank)];
  const std::int64_t count = offsets[static_cast<std::size_t>(place.rank) + 1] - first;
  Phase reduce;
  const Elements whole = on_the_wire(exchange, tensor, wire);
  const Elements received = scratch(exchange, wire, count * (place.size - 1));
  reduce.sends = sends_of_parts(place, tensor, whole, offsets);
  reduce.receives = receives_into_slots(place, received, count);
  reduce.finish = [=, round = rounding(tensor, whole, first, count)] {
    if (round) round();
    void* own = at_element(whole, first);
    reduce_parts(parts_in_rank_order(place, received, count, {own, wire}), operation, own, wire, count);
  };
  Phase gather = gather_phase(place, whole, offsets);
  if (wire != tensor.dtype) gather.finish = [=] { round_elements(whole.data, wire, tensor.data, tensor.dtype, tensor.count); };
  exchange.phases.push_back(std::move(reduce));
  exchange.phases.push_back(std::move(gather));
}

void count_sent_bytes(Exchange& exchange) {
  for (const Phase& phase : exchange.phases)
    for (const Transfer& transfer : phase.sends) exchange.description.bytes_sent += transfer.bytes;
}

}  // namespace

Exchange all_reduce_exchange(Place place, const Elements& tensor, ReduceOperation operation, DType wire) {
  Exchange exchange;
  exchange.description = {
      .kind = OperationKind::AllReduce, .dtype = tensor.dtype, .wire = wire, .reduce = operation, .peer = -1, .elements = tensor.count};
  const bool is_short = bytes_of(wire, tensor.count) <= kShortReduction;
  (is_short ? short_all_reduce : long_all_reduce)(exchange, place, tensor, operation, wire);
  count_sent_bytes(exchange);
  return exchange;
}

Exchange reduce_scatter_exchange(Place place, const Elements& input, std::span<const std::int64_t> counts, const Elements& output, DType wire) {
  const std::vector<std::int64_t> offsets = offsets_of(counts);
  Exchange exchange;
  exchange.description = {
      .kind = OperationKind::ReduceScatter, .dtype = input.dtype, .wire = wire, .elements = input.count, .counts_digest = digest_of(counts)};
  Phase phase;
  const Elements sent = on_the_wire(exchange, input, wire);
  const Elements received = scratch(exchange, wire, output.count * (place.size - 1));
  phase.sends = sends_of_parts(place, input, sent, offsets);
  phase.receives = receives_into_slots(place, received, output.count);
  const Part own{at_element(input, offsets[static_cast<std::size_t>(place.rank)]), input.dtype};
  phase.finish = [=] {
    reduce_parts(parts_in_rank_order(place, received, output.count, own), ReduceOperation::Sum, output.data, output.dtype, output.count);
  };
  exchange.phases.push_back(std::move(phase));
  count_sent_bytes(exchange);
  return exchange;
}

Exchange all_gather_exchange(Place place, const Elements& input, std::span<const std::int64_t> counts, const Elements& output) {
  const std::vector<std::int64_t> offsets = offsets_of(counts);
  Exchange exchange;
  exchange.description = {
      .kind = OperationKind::AllGather, .dtype = input.dtype, .wire = input.dtype, .elements = output.count, .counts_digest = digest_of(counts)};
  Phase phase = gather_phase(place, output, offsets);
  void* own = at_element(output, offsets[static_cast<std::size_t>(place.rank)]);
  phase.prepare = [=] { round_elements(input.data, input.dtype, own, input.dtype, input.count); };
  exchange.phases.push_back(std::move(phase));
  count_sent_bytes(exchange);
  return exchange;
}

Exchange broadcast_exchange(Place place, const Elements& tensor, int root) {
  Exchange exchange;
  exchange.description = {.kind = OperationKind::Broadcast, .dtype = tensor.dtype, .wire = tensor.dtype, .peer = root, .elements = tensor.count};
  const std::int64_t bytes = bytes_of(tensor.dtype, tensor.count);
  const bool whole = place.size == 2 || bytes <= kShortBroadcast;
  const std::vector<std::int64_t> offsets = offsets_of(even_counts(tensor.count, place.size));
  const auto piece = [&](int peer) { return whole ? Transfer{peer, at_element(tensor, 0), bytes} : part_of(tensor, peer, offsets); };
  Phase first;
  if (place.rank == root) {
    for (const int peer : peers_of(place)) first.sends.push_back(piece(peer));
  } else {
    first.receives.push_back(piece(place.rank));
    first.receives.back().peer = root;
  }
  exchange.phases.push_back(std::move(first));
  if (!whole) exchange.phases.push_back(gather_phase(place, tensor, offsets));
  // The root has everything already.
  if (place.rank == root) exchange.phases.back().receives.clear();
  std::erase_if(exchange.phases.back().sends, [root](const Transfer& transfer) { return transfer.peer == root; });
  count_sent_bytes(exchange);
  return exchange;
}

Exchange all_to_all_exchange(Place place, const Elements& input, std::span<const std::int64_t> input_counts, const Elements& output,
                             std::span<const std::int64_t> output_counts) {
  const std::vector<std::int64_t> from = offsets_of(input_counts);
  const std::vector<std::int64_t> to = offsets_of(output_counts);
  Exchange exchange;
  exchange.description = {.kind = OperationKind::AllToAll, .dtype = input.dtype, .wire = input.dtype, .elements = input.count};
  Phase phase;
  for (const int peer : peers_of(place)) {
    phase.sends.push_back(part_of(input, peer, from));
    phase.receives.push_back(part_of(output, peer, to));
  }
  const Transfer own = part_of(input, place.rank, from);
  std::byte* kept = part_of(output, place.rank, to).data;
  phase.prepare = [own, kept] {
    if (own.bytes > 0) std::memcpy(kept, own.data, static_cast<std::size_t>(own.bytes));
  };
  exchange.phases.push_back(std::move(phase));
  count_sent_bytes(exchange);
  return exchange;
}

Exchange send_exchange(const Elements& tensor, int to) {
  Exchange exchange;
  exchange.description = {.kind = OperationKind::Send, .dtype = tensor.dtype, .wire = tensor.dtype, .peer = to, .elements = tensor.count};
  exchange.phases.emplace_back().sends.push_back({to, at_element(tensor, 0), bytes_of(tensor.dtype, tensor.count)});
  count_sent_bytes(exchange);
  return exchange;
}

Exchange receive_exchange(const Elements& tensor, int from) {
  Exchange exchange;
  exchange.description = {.kind = OperationKind::Receive, .dtype = tensor.dtype, .wire = tensor.dtype, .peer = from, .elements = tensor.count};
  exchange.phases.emplace_back().receives.push_back({from, at_element(tensor, 0), bytes_of(tensor.dtype, tensor.count)});
  return exchange;
}

Exchange barrier_exchange(Place place) {
  Exchange exchange;
  exchange.description.kind = OperationKind::Barrier;
  Phase& arrive = exchange.phases.emplace_back();
  Phase leave;
  for (int peer = 1; peer < place.size; ++peer) {
    if (place.rank == 0) {
      arrive.receives.push_back({peer, nullptr, 0});
      leave.sends.push_back({peer, nullptr, 0});
    } else if (place.rank == peer) {
      arrive.sends.push_back({0, nullptr, 0});
      leave.receives.push_back({0, nullptr, 0});
    }
  }
  exchange.phases.push_back(std::move(leave));
  return exchange;
}

}  // namespace tessera::comm
