#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/environment.h"

/// Starting ranks: who this process is, and the launcher that starts and supervises the ranks of one host.
namespace tessera::launch {

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

/// Where ranks that torchrun started meet before they can talk.
struct Rendezvous {
  std::string address;
  std::uint16_t port = 0;
  bool served = false;  ///< torchrun itself listens there; otherwise rank 0 does
  std::string prefix;   ///< of this start's keys: a restart by torchrun must not see those of the start before
};
/// From MASTER_ADDR, MASTER_PORT and torchrun's TORCHELASTIC_USE_AGENT_STORE and TORCHELASTIC_RESTART_COUNT. UserError for what is not a port.
Rendezvous torchrun_rendezvous(const Environment& environment);

/// Whether torchrun's variables say what this process is: they are set, and it was not mpirun or srun that started it (torchrun below srun is
/// recognised by TORCHELASTIC_RUN_ID).
bool started_by_torchrun(const Environment& environment);

/// UserError, with the line to use instead, when this process is one of several ranks that cannot start MPI: torchrun's (or what has its RANK and
/// WORLD_SIZE alone), or those of an srun that hands out no PMI. `command_line`: what each rank runs, for that line.
void refuse_ranks_without_mpi(const Environment& environment, const std::string& command_line);

}  // namespace tessera::launch
