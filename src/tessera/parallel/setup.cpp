#include "tessera/parallel/setup.h"

#include "tessera/config/parallelism.h"
#include "tessera/core/error.h"
#include "tessera/mesh/mesh_sizes.h"

namespace tessera::parallel {

DistributedSetup DistributedSetup::build(comm::Backend& backend, const config::Distributed& strategy) {
  ProblemList problems;
  config::validate_parallelism(strategy, backend.world_size(), [](std::string_view) { return std::string(); }, problems);
  problems.throw_if_any();
  DistributedSetup setup{.strategy = strategy,
                         .mesh = std::make_unique<const mesh::MeshContext>(mesh::mesh_sizes(strategy, backend.world_size()), backend.rank()),
                         .communicators = nullptr};
  setup.communicators = std::make_unique<Communicators>(backend, *setup.mesh);
  return setup;
}

}  // namespace tessera::parallel
