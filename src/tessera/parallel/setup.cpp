#include "tessera/parallel/setup.h"

#include "tessera/config/parallelism.h"
#include "tessera/core/error.h"

namespace tessera::parallel {

mesh::MeshSizes mesh_sizes(const config::Distributed& strategy, std::int64_t world_size) {
  const config::ParallelismSizes& sizes = strategy.sizes;
  if (world_size == 1) return {};
  const std::int64_t dp_size = config::data_parallel_size(sizes, world_size).value();
  return {.pp = sizes.pp_size,
          .dp_replicate = sizes.dp_replicate_size,
          .dp_shard = dp_size / sizes.dp_replicate_size,
          .cp = sizes.cp_size,
          .tp = sizes.tp_size,
          .ep = sizes.ep_size};
}

DistributedSetup DistributedSetup::build(comm::Backend& backend, const config::Distributed& strategy) {
  ProblemList problems;
  config::validate_parallelism(strategy, backend.world_size(), [](std::string_view) { return std::string(); }, problems);
  problems.throw_if_any();
  DistributedSetup setup{.strategy = strategy,
                         .mesh = std::make_unique<const mesh::MeshContext>(mesh_sizes(strategy, backend.world_size()), backend.rank()),
                         .communicators = nullptr};
  setup.communicators = std::make_unique<Communicators>(backend, *setup.mesh);
  return setup;
}

}  // namespace tessera::parallel
