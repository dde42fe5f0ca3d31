#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/setup.h"

/// The backend and the setup of a test that runs in one process.
namespace tessera::test {

inline comm::Backend& one_process_backend() {
  static const std::unique_ptr<comm::Backend> backend = comm::self_backend();
  return *backend;
}

inline const parallel::DistributedSetup& one_process() {
  static const parallel::DistributedSetup setup = parallel::DistributedSetup::build(one_process_backend(), {});
  return setup;
}

}  // namespace tessera::test
