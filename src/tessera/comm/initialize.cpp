#include "tessera/comm/initialize.h"

#include "tessera/comm/mpi_backend.h"

namespace tessera::comm {

std::unique_ptr<Backend> initialize_distributed(double timeout_minutes) {
  if (!started_by_mpi()) return self_backend();
  auto backend = std::make_unique<MpiBackend>();
  backend->set_timeout(timeout_minutes * 60.0);
  return backend;
}

}  // namespace tessera::comm
