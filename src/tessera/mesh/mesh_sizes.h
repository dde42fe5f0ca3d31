#pragma once

#include <cstdint>

#include "tessera/config/sections/distributed.h"
#include "tessera/mesh/mesh_context.h"

namespace tessera::mesh {

/// The mesh that `distributed` asks for over `world_size` ranks: fsdp2 (dp_replicate_size replicas of shards), megatron_fsdp (dp, cp, tp: one
/// replica), ddp (replicas only). The rules of config/parallelism.h hold.
MeshSizes mesh_sizes(const config::Distributed& distributed, std::int64_t world_size);

}  // namespace tessera::mesh
