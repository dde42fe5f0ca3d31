#include "tessera/comm/initialize.h"

#include <cstdlib>

#include "tessera/comm/launch/rank_environment.h"
#include "tessera/comm/mpi_backend.h"
#include "tessera/comm/nccl/nccl_backend.h"

namespace tessera::comm {
namespace {

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

bool joins_on_gpus() { return launch::started_by_torchrun(variable) && num_gpus() > 0; }

std::unique_ptr<Backend> initialize_distributed(double timeout_minutes) {
  if (joins_on_gpus()) return nccl_backend(*launch::torchrun_environment(variable), launch::torchrun_rendezvous(variable), timeout_minutes * 60.0);
  launch::refuse_ranks_without_mpi(variable, "PROGRAM");
  if (!started_by_mpi()) return self_backend();
  auto backend = std::make_unique<MpiBackend>();
  backend->set_timeout(timeout_minutes * 60.0);
  return backend;
}

}  // namespace tessera::comm
