#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/comm/operation.h"

/// Operations as data: which bytes go to and come from which rank, in phases. What carries them (comm/mpi_engine.h) knows nothing of reductions, and
/// this file knows nothing of MPI.
namespace tessera::comm {

struct Transfer {
  int peer = 0;  ///< rank in the group
  std::byte* data = nullptr;
  std::int64_t bytes = 0;              ///< 0 is a message too: it says that the peer is there
  std::function<void()> prepare = {};  ///< of a send: makes its bytes, so that earlier sends are on their way meanwhile; may be empty
};

/// All transfers of a phase run at once. `prepare` runs before them, `finish` when all are complete; both on the carrying thread, either may be
/// empty.
struct Phase {
  std::function<void()> prepare;
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  std::function<void()> finish;
};

struct Exchange {
  OperationDescription description;
  std::vector<Phase> phases;                ///< at most 4
  std::vector<std::shared_ptr<void>> kept;  ///< what owns the memory, until the operation is over
};

/// This rank's place in its group.
struct Place {
  int rank = 0;
  int size = 1;
};

/// Elements in memory.
struct Elements {
  void* data = nullptr;
  DType dtype{};
  std::int64_t count = 0;
};

/// The operations of comm/communicator.h for a group of at least two, over host memory that the caller keeps alive.
/// Reductions exchange pieces pairwise in the wire dtype and are summed in rank order (reduction.h); short all-reduces send everything to everyone,
/// long ones reduce pieces and gather them: the same bits either way. Long broadcasts scatter and gather. Everything else is one phase.
Exchange all_reduce_exchange(Place place, const Elements& tensor, ReduceOperation operation, DType wire);
Exchange reduce_scatter_exchange(Place place, const Elements& input, std::span<const std::int64_t> counts, const Elements& output, DType wire);
Exchange all_gather_exchange(Place place, const Elements& input, std::span<const std::int64_t> counts, const Elements& output);
Exchange broadcast_exchange(Place place, const Elements& tensor, int root);
Exchange all_to_all_exchange(Place place, const Elements& input, std::span<const std::int64_t> input_counts, const Elements& output,
                             std::span<const std::int64_t> output_counts);
Exchange send_exchange(const Elements& tensor, int to);
Exchange receive_exchange(const Elements& tensor, int from);
Exchange barrier_exchange(Place place);

}  // namespace tessera::comm
