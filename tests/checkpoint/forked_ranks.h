#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/communicator.h"

/// Ranks that may be killed: processes forked from the test, which talk through shared memory. They start in milliseconds, and the test outlives
/// them.
namespace tessera::test {

/// One rank's end.
struct RankEnd {
  bool killed = false;      ///< by SIGKILL
  int status = 0;           ///< of its exit otherwise
  std::int64_t answer = 0;  ///< what `work` returned; 0 when it did not
};

/// Runs `work` in `num_ranks` (at most 8) processes and waits for all. When one is killed, the operations of the others throw Failure. A process
/// whose work throws exits with status 3 and prints the error. The group can all_reduce (sums of doubles and 64-bit integers), all_gather and wait
/// at a barrier; texts of up to 1 MiB.
std::vector<RankEnd> run_forked(int num_ranks, const std::function<std::int64_t(comm::Communicator& group)>& work);

}  // namespace tessera::test
