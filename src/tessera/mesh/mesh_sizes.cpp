#include "tessera/mesh/mesh_sizes.h"

#include "tessera/config/parallelism.h"
#include "tessera/core/error.h"

namespace tessera::mesh {

MeshSizes mesh_sizes(const config::Distributed& distributed, std::int64_t world_size) {
  const config::ParallelismSizes& sizes = distributed.sizes;
  const std::int64_t dp_size = config::data_parallel_size(sizes, world_size).value_or(0);
  const std::int64_t replicas = distributed.strategy == config::Strategy::Ddp ? dp_size : sizes.dp_replicate_size;
  TESSERA_ASSERT(replicas > 0 && dp_size % replicas == 0, "the rules about sizes were checked");
  return {
      .pp = sizes.pp_size, .dp_replicate = replicas, .dp_shard = dp_size / replicas, .cp = sizes.cp_size, .tp = sizes.tp_size, .ep = sizes.ep_size};
}

}  // namespace tessera::mesh
