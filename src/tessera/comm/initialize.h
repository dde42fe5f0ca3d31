#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera::comm {

/// Joins the run this process was started for: through MPI when mpirun, mpiexec or srun started it, alone otherwise. `timeout_minutes`: how long an
/// operation may make no progress before it fails. Called once, by the main thread, before other threads are started.
std::unique_ptr<Backend> initialize_distributed(double timeout_minutes = 10.0);

}  // namespace tessera::comm
