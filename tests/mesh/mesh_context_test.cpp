// Every mesh of up to 64 ranks against coordinates that nested loops write down.
#include "tessera/mesh/mesh_context.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

namespace tessera::mesh {
namespace {

using ::testing::ElementsAre;

/// One rank's coordinates, by the number of the axis.
using Coordinates = std::array<std::int64_t, kNumAxes>;

std::vector<MeshSizes> all_meshes(std::int64_t max_ranks) {
  std::vector<MeshSizes> meshes;
  for (std::int64_t world = 1; world <= max_ranks; ++world)
    for (std::int64_t pp = 1; pp <= world; ++pp)
      for (std::int64_t r = 1; pp * r <= world; ++r)
        for (std::int64_t s = 1; pp * r * s <= world; ++s)
          for (std::int64_t c = 1; pp * r * s * c <= world; ++c)
            for (std::int64_t ep = 1; ep <= s * c; ++ep)
              if (world % (pp * r * s * c) == 0 && s * c % ep == 0) meshes.push_back({pp, r, s, c, world / (pp * r * s * c), ep});
  return meshes;
}

/// The device mesh's coordinates as an array indexed [pp][r][s][c][t] has them; the expert mesh's by counting the (s, c) of a replica off in rows of
/// ep.
std::vector<Coordinates> written_down(const MeshSizes& m) {
  std::vector<Coordinates> ranks;
  for (std::int64_t pp = 0; pp < m.pp; ++pp)
    for (std::int64_t r = 0; r < m.dp_replicate; ++r) {
      std::int64_t expert_shard = 0;
      std::int64_t expert = 0;
      for (std::int64_t s = 0; s < m.dp_shard; ++s)
        for (std::int64_t c = 0; c < m.cp; ++c) {
          for (std::int64_t t = 0; t < m.tp; ++t) ranks.push_back({pp, r, s, c, t, expert_shard, expert});
          if (++expert == m.ep) {
            expert = 0;
            ++expert_shard;
          }
        }
    }
  return ranks;
}

std::vector<Axis> axes_in(AxisSet set) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < kNumAxes; ++i)
    if (set.contains(static_cast<Axis>(i))) axes.push_back(static_cast<Axis>(i));
  return axes;
}

/// All sets of axes of the device mesh and of the expert mesh.
std::vector<AxisSet> all_sets() {
  std::vector<AxisSet> sets;
  for (unsigned bits = 0; bits < (1U << kNumAxes); ++bits) {
    AxisSet set;
    set.bits = static_cast<std::uint8_t>(bits);
    const bool device = set.contains(Axis::DataShard) || set.contains(Axis::Context);
    const bool expert = set.contains(Axis::ExpertShard) || set.contains(Axis::Expert);
    if (!(device && expert)) sets.push_back(set);
  }
  return sets;
}

/// The other coordinates of the mesh that `set` belongs to: ranks with equal ones are a group.
std::vector<std::int64_t> fixed_coordinates(const Coordinates& at, AxisSet set) {
  const bool expert = set.contains(Axis::ExpertShard) || set.contains(Axis::Expert);
  std::vector<std::int64_t> fixed;
  for (std::size_t i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const bool of_other_mesh = expert ? (axis == Axis::DataShard || axis == Axis::Context) : (axis == Axis::ExpertShard || axis == Axis::Expert);
    if (!set.contains(axis) && !of_other_mesh) fixed.push_back(at[i]);
  }
  return fixed;
}

/// Groups in the order of their first rank; members in rank order, which is mesh order.
std::vector<std::vector<std::int64_t>> groups_by_coordinates(const std::vector<Coordinates>& ranks, AxisSet set) {
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> by_rest;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) by_rest[fixed_coordinates(ranks[rank], set)].push_back(static_cast<std::int64_t>(rank));
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& [rest, members] : by_rest) groups.push_back(std::move(members));
  std::ranges::sort(groups);
  return groups;
}

void expect_group(const MeshContext& mesh, AxisSet set, const std::vector<std::int64_t>& members, std::size_t place) {
  ASSERT_EQ(mesh.group(set), members) << to_string(set) << " of " << describe(mesh);
  ASSERT_EQ(mesh.size(set), static_cast<std::int64_t>(members.size()));
  ASSERT_EQ(mesh.index(set), static_cast<std::int64_t>(place));
}

void check_mesh(const MeshSizes& sizes) {
  const std::vector<Coordinates> ranks = written_down(sizes);
  ASSERT_EQ(sizes.world_size(), static_cast<std::int64_t>(ranks.size()));
  for (const AxisSet set : all_sets()) {
    const auto groups = groups_by_coordinates(ranks, set);
    ASSERT_EQ(MeshContext(sizes, 0).all_groups(set), groups) << to_string(set);
    for (const auto& members : groups)
      for (std::size_t i = 0; i < members.size(); ++i) expect_group(MeshContext(sizes, members[i]), set, members, i);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Axis axis : axes_in(kWorld | Axis::ExpertShard | Axis::Expert))
      ASSERT_EQ(MeshContext(sizes, static_cast<std::int64_t>(rank)).index(axis), ranks[rank][static_cast<std::size_t>(axis)]) << to_string(axis);
}

TEST(MeshContext, EverySmallMeshIsAsWrittenDown) {
  const std::vector<MeshSizes> meshes = all_meshes(16);
  EXPECT_GT(meshes.size(), 300U);
  for (const MeshSizes& sizes : meshes) check_mesh(sizes);
}

TEST(MeshContext, MeshesOf64Ranks) {
  for (const MeshSizes& sizes : {MeshSizes{1, 1, 64, 1, 1, 64}, MeshSizes{2, 2, 4, 2, 2, 8}, MeshSizes{4, 1, 2, 4, 2, 4}, MeshSizes{1, 4, 4, 1, 4, 2},
                                 MeshSizes{2, 4, 2, 2, 2, 1}, MeshSizes{64, 1, 1, 1, 1, 1}, MeshSizes{1, 1, 3, 7, 3, 21}})
    check_mesh(sizes);
}

TEST(MeshContext, LONG_EveryMeshUpTo64Ranks) {
  for (const MeshSizes& sizes : all_meshes(64)) check_mesh(sizes);
}

/// 2 stages × 2 replicas × 2 shards × 2 context × 2 tensor ranks, worked out by hand: 21 = 1·16 + 0·8 + 1·4 + 0·2 + 1.
TEST(MeshContext, RankWorkedOutByHand) {
  const MeshContext mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 2}, 21);
  EXPECT_EQ(describe(mesh), "rank 21: pp 1, dp_replicate 0, dp_shard 1, cp 0, tp 1, ep_shard 1, ep 0");
  EXPECT_THAT(mesh.group(Axis::PipelineParallel), ElementsAre(5, 21));
  EXPECT_THAT(mesh.group(kDp), ElementsAre(17, 21, 25, 29));
  EXPECT_THAT(mesh.group(kDpShardCp), ElementsAre(17, 19, 21, 23));
  EXPECT_THAT(mesh.group(Axis::ExpertShard), ElementsAre(17, 21));
  EXPECT_THAT(mesh.group(Axis::Expert), ElementsAre(21, 23));
  EXPECT_EQ(mesh.dp_rank(), 1);
  EXPECT_EQ(mesh.dp_size(), 4);
}

TEST(MeshContext, DescriptionsNameOnlyWhatIsSplit) {
  EXPECT_EQ(describe(MeshContext({}, 0)), "rank 0");
  EXPECT_EQ(describe(MeshContext({.dp_shard = 4}, 3)), "rank 3: dp_shard 3");
}

TEST(MeshContext, NamesOfSets) {
  EXPECT_EQ(to_string(AxisSet()), "self");
  EXPECT_EQ(to_string(kDp), "dp");
  EXPECT_EQ(to_string(kDpShardCp), "dp_shard_cp");
  EXPECT_EQ(to_string(kDpCp), "dp_cp");
  EXPECT_EQ(to_string(kWorld), "world");
  EXPECT_EQ(to_string(Axis::Context | Axis::Tensor), "cp_tp");
  EXPECT_EQ(to_string(Axis::DataReplicate | Axis::ExpertShard), "dp_replicate_ep_shard");
}

TEST(MeshContext, WhatCannotBeIsAsserted) {
  EXPECT_DEATH(MeshContext({.dp_shard = 2}, 2), "rank 2 of 2");
  EXPECT_DEATH(MeshContext({.dp_shard = 4, .ep = 3}, 0), "ep divides");
  EXPECT_DEATH(MeshContext({.dp_shard = 4, .ep = 2}, 0).size(Axis::DataShard | Axis::Expert), "dp_shard_ep");
}

}  // namespace
}  // namespace tessera::mesh
