#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera::comm {

/// Joins the run this process was started for: through MPI when mpirun, mpiexec or srun started it; through NCCL when torchrun's variables are set
/// and this host has GPUs (nccl/nccl_backend.h); alone otherwise. UserError for ranks that cannot start MPI. `timeout_minutes`: how long
/// an operation may make no progress before it fails. Called once, by the main thread, before other threads are started.
std::unique_ptr<Backend> initialize_distributed(double timeout_minutes = 10.0);

/// Whether torchrun started this process (launch/rank_environment.h) and there is a GPU to use.
bool joins_on_gpus();

}  // namespace tessera::comm
