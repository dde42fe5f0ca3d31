#pragma once

#include <cstdint>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/parallel/communicators.h"

namespace tessera::parallel {

/// How this rank takes part in a run: its place in the mesh, whom it talks to, and the strategy's options.
///
///   auto backend = comm::initialize_distributed();
///   auto setup = DistributedSetup::build(*backend, {.strategy = config::Strategy::Fsdp2});
struct DistributedSetup {
  config::Distributed strategy;
  std::unique_ptr<const mesh::MeshContext> mesh;  ///< on the heap: the communicators refer to it
  std::unique_ptr<Communicators> communicators;

  /// UserError with every rule that `strategy` breaks for the backend's number of ranks (config/parallelism.h). The backend must outlive the setup.
  static DistributedSetup build(comm::Backend& backend, const config::Distributed& strategy);

  std::int64_t rank() const { return mesh->rank(); }
  comm::Communicator& world() const { return communicators->get(mesh::kWorld); }
};

}  // namespace tessera::parallel
