#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// Starting ranks: who this process is, and the launcher that starts and supervises the ranks of one host.
namespace tessera::launch {

/// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view)>;

/// What a process that is one rank of a run knows from its environment, before any communication.
struct RankEnvironment {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;  ///< among the ranks of this host
  std::int64_t local_size = 1;
  bool operator==(const RankEnvironment&) const = default;
};

/// This process's place in a run that mpirun (Open MPI, MPICH) or srun started; nothing when it was started alone. An srun step of one task counts as
/// alone. UserError when the variables contradict each other.
std::optional<RankEnvironment> rank_environment(const Environment& environment);

/// The same from torchrun's variables RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, which serve ranks on GPUs; nothing unless RANK, WORLD_SIZE
/// and MASTER_ADDR are all set.
std::optional<RankEnvironment> torchrun_environment(const Environment& environment);

/// MPI cannot be started by torchrun's variables. UserError with the mpirun line when they are set and no MPI launcher started this process.
/// `command_line`: what each rank runs, for that line.
void refuse_torchrun_on_cpu(const Environment& environment, const std::string& command_line);

}  // namespace tessera::launch
