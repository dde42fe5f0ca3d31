#include "tessera/mesh/mesh_context.h"

#include <fmt/format.h>
#include <array>

#include "tessera/core/error.h"

namespace tessera::mesh {
namespace {

constexpr std::size_t kNumDigits = 5;
using Digits = std::array<Axis, kNumDigits>;

/// Both meshes number the ranks with five digits, the slowest first.
constexpr Digits kDeviceMesh{Axis::PipelineParallel, Axis::DataReplicate, Axis::DataShard, Axis::Context, Axis::Tensor};
constexpr Digits kExpertMesh{Axis::PipelineParallel, Axis::DataReplicate, Axis::ExpertShard, Axis::Expert, Axis::Tensor};

const Digits& mesh_of(AxisSet axes) {
  const bool expert = axes.contains(Axis::ExpertShard) || axes.contains(Axis::Expert);
  const bool device = axes.contains(Axis::DataShard) || axes.contains(Axis::Context);
  TESSERA_ASSERT(!(expert && device), "dp_shard and cp are ep_shard and ep in the expert mesh: " + to_string(axes));
  return expert ? kExpertMesh : kDeviceMesh;
}

/// Where `rank` stands along `axes`, and the rank at the same place with index 0 along them.
struct Place {
  std::int64_t index = 0;
  std::int64_t first = 0;
};

Place place_of(const MeshSizes& sizes, AxisSet axes, std::int64_t rank) {
  const Digits& digits = mesh_of(axes);
  Place place{.index = 0, .first = rank};
  std::int64_t stride = 1;
  std::int64_t weight = 1;
  for (std::size_t i = kNumDigits; i-- > 0;) {
    const std::int64_t size = sizes.size(digits[i]);
    const std::int64_t coordinate = rank / stride % size;
    if (axes.contains(digits[i])) {
      place.index += coordinate * weight;
      place.first -= coordinate * stride;
      weight *= size;
    }
    stride *= size;
  }
  return place;
}

/// How far the rank with index `index` along `axes` is from the one with index 0.
std::int64_t offset_of(const MeshSizes& sizes, AxisSet axes, std::int64_t index) {
  const Digits& digits = mesh_of(axes);
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  for (std::size_t i = kNumDigits; i-- > 0;) {
    const std::int64_t size = sizes.size(digits[i]);
    if (axes.contains(digits[i])) {
      offset += index % size * stride;
      index /= size;
    }
    stride *= size;
  }
  return offset;
}

std::vector<std::int64_t> group_from(const MeshSizes& sizes, AxisSet axes, std::int64_t first, std::int64_t size) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = first + offset_of(sizes, axes, i);
  return ranks;
}

}  // namespace

std::string_view to_string(Axis axis) {
  constexpr std::array<std::string_view, kNumAxes> names{"pp", "dp_replicate", "dp_shard", "cp", "tp", "ep_shard", "ep"};
  return names[static_cast<std::size_t>(axis)];
}

std::string to_string(AxisSet axes) {
  if (axes == AxisSet()) return "self";
  if (axes == kDp) return "dp";
  if (axes == kDpCp) return "dp_cp";
  if (axes == kWorld) return "world";
  std::string name;
  for (std::size_t i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (axes.contains(axis)) name += (name.empty() ? "" : "_") + std::string(to_string(axis));
  }
  return name;
}

std::int64_t MeshSizes::size(Axis axis) const {
  switch (axis) {
    case Axis::PipelineParallel:
      return pp;
    case Axis::DataReplicate:
      return dp_replicate;
    case Axis::DataShard:
      return dp_shard;
    case Axis::Context:
      return cp;
    case Axis::Tensor:
      return tp;
    case Axis::ExpertShard:
      return ep_shard();
    case Axis::Expert:
      return ep;
  }
  TESSERA_ASSERT(false, "no such axis");
}

MeshContext::MeshContext(const MeshSizes& sizes, std::int64_t rank) : sizes_(sizes), rank_(rank) {
  for (std::size_t i = 0; i < kNumAxes; ++i) TESSERA_ASSERT(sizes.size(static_cast<Axis>(i)) >= 1, "an axis has at least one rank");
  TESSERA_ASSERT(sizes.ep_shard() * sizes.ep == sizes.dp_shard * sizes.cp, "ep divides dp_shard · cp");
  TESSERA_ASSERT(rank >= 0 && rank < sizes.world_size(), fmt::format("rank {} of {}", rank, sizes.world_size()));
}

std::int64_t MeshContext::size(AxisSet axes) const {
  std::int64_t product = 1;
  for (const Axis axis : mesh_of(axes)) product *= axes.contains(axis) ? sizes_.size(axis) : 1;
  return product;
}

std::int64_t MeshContext::index(AxisSet axes) const { return place_of(sizes_, axes, rank_).index; }

std::vector<std::int64_t> MeshContext::group(AxisSet axes) const { return group_from(sizes_, axes, place_of(sizes_, axes, rank_).first, size(axes)); }

std::vector<std::vector<std::int64_t>> MeshContext::all_groups(AxisSet axes) const {
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < world_size(); ++rank)
    if (place_of(sizes_, axes, rank).first == rank) groups.push_back(group_from(sizes_, axes, rank, size(axes)));
  return groups;
}

std::string describe(const MeshContext& mesh) {
  std::string text;
  for (std::size_t i = 0; i < kNumAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const bool of_experts = axis == Axis::ExpertShard || axis == Axis::Expert;
    if (mesh.size(axis) == 1 || (of_experts && mesh.sizes().ep == 1)) continue;
    text += fmt::format("{} {} {}", text.empty() ? ":" : ",", to_string(axis), mesh.index(axis));
  }
  return fmt::format("rank {}{}", mesh.rank(), text);
}

}  // namespace tessera::mesh
