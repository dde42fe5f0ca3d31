#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::launch {

struct LaunchRequest {
  std::int64_t num_ranks = 1;
  std::vector<std::string> command;                    ///< program and arguments of each rank; the program makes a RankProcess
  std::optional<std::filesystem::path> log_directory;  ///< where ranks were told to log, to quote from
};

/// Starts the ranks on this host under mpirun (Open MPI or MPICH, found on PATH) and returns when all have ended, with the status of the run: 0, or
/// what the first rank to fail exited with (1 when it was killed). UserError when there is no mpirun.
///
/// When a rank fails or dies, all others end within seconds, and the last lines on standard error repeat the first cause. SIGINT and SIGTERM reach
/// every rank (as SIGTERM), a second one kills them. When this process is killed, so are mpirun and the ranks. Lines of ranks other than 0 are shown
/// with "[rank 3] " before them.
///
/// The cores of this process are divided among the ranks (OMP_NUM_THREADS, unless it is set), and waiting ranks yield their core.
int launch(const LaunchRequest& request);

}  // namespace tessera::launch
