#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

struct BenchmarkOptions {
  std::vector<std::int64_t> sizes{8, 4096, 262144, 16777216};  ///< bytes of the whole fp32 tensor, rounded so that every rank has whole elements
  double seconds = 0.3;                                        ///< for each operation and size, after a first run that touches the memory
};

/// One operation at one size. Times are those of the slowest rank.
struct BenchmarkPoint {
  OperationKind kind{};
  std::string group;
  int num_ranks = 1;
  std::int64_t bytes = 0;
  std::int64_t repetitions = 0;
  double median_seconds = 0.0;
  double best_seconds = 0.0;
  /// What each rank's link carries per second at the median, as nccl-tests counts ("bus bandwidth"): (n − 1)/n of the tensor, twice that for an
  /// all-reduce, the whole tensor for a broadcast and for messages, which are sent around a ring.
  double bytes_per_second = 0.0;
};

/// Times all-reduce, reduce-scatter, all-gather, broadcast, all-to-all, send with receive, and the barrier. All ranks of the group call it.
std::vector<BenchmarkPoint> benchmark(Communicator& communicator, const BenchmarkOptions& options);

}  // namespace tessera::comm
