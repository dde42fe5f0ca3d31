#include "tessera/mesh/mesh_sizes.h"

#include <gtest/gtest.h>

namespace tessera::mesh {
namespace {

using config::Strategy;

TEST(MeshSizes, DataParallelRanksAreWhatTheOtherAxesLeave) {
  EXPECT_EQ(mesh_sizes({.sizes = {.tp_size = 2, .pp_size = 2, .cp_size = 3, .ep_size = 6}}, 48),
            (MeshSizes{.pp = 2, .dp_replicate = 1, .dp_shard = 4, .cp = 3, .tp = 2, .ep = 6}));
  EXPECT_EQ(mesh_sizes({}, 1), MeshSizes{});
}

TEST(MeshSizes, StrategiesLayTheirRanksOut) {
  EXPECT_EQ(mesh_sizes({.strategy = Strategy::Fsdp2, .sizes = {.dp_replicate_size = 2}}, 8), (MeshSizes{.dp_replicate = 2, .dp_shard = 4}));
  EXPECT_EQ(mesh_sizes({.strategy = Strategy::Ddp}, 8), (MeshSizes{.dp_replicate = 8}));
  EXPECT_EQ(mesh_sizes({.strategy = Strategy::MegatronFsdp, .sizes = {.tp_size = 2}}, 8), (MeshSizes{.dp_shard = 4, .tp = 2}));
}

}  // namespace
}  // namespace tessera::mesh
