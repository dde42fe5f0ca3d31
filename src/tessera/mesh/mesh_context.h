#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Which rank does what: arithmetic over sizes and coordinates, no communication, no libtorch.
namespace tessera::mesh {

/// The axes of the device mesh from the slowest-varying to the fastest, then those of the expert mesh. With sizes R, S, C, T and P of dp_replicate,
/// dp_shard, cp, tp and pp:
///   rank = (((pp · R + dp_replicate) · S + dp_shard) · C + cp) · T + tp
/// The expert mesh (pp, ep_shard, ep) covers the same ranks: (ep_shard, ep) takes the place of (dp_shard, cp), ep fastest, and dp_replicate and tp
/// keep their places, so an expert group never leaves its replica:
///   rank = (((pp · R + dp_replicate) · ES + ep_shard) · E + ep) · T + tp,   ES · E = S · C
enum class Axis : std::uint8_t { PipelineParallel, DataReplicate, DataShard, Context, Tensor, ExpertShard, Expert };
inline constexpr std::size_t kNumAxes = 7;
/// "pp", "dp_replicate", "dp_shard", "cp", "tp", "ep_shard", "ep".
std::string_view to_string(Axis axis);

/// Several axes taken together: the flattened axes dp, dp_shard_cp, dp_cp and the like. A set names axes of one mesh: `dp_shard` and `cp` do not go
/// with `ep_shard` and `ep`.
struct AxisSet {
  std::uint8_t bits = 0;

  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(static_cast<std::uint8_t>(1U << static_cast<unsigned>(axis))) {}  // NOLINT: an axis is a set of one
  constexpr bool contains(Axis axis) const { return ((bits >> static_cast<unsigned>(axis)) & 1U) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    AxisSet both;
    both.bits = static_cast<std::uint8_t>(a.bits | b.bits);
    return both;
  }
  auto operator<=>(const AxisSet&) const = default;
};
constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

inline constexpr AxisSet kDp = Axis::DataReplicate | Axis::DataShard;
inline constexpr AxisSet kDpShardCp = Axis::DataShard | Axis::Context;
inline constexpr AxisSet kDpCp = kDp | Axis::Context;
inline constexpr AxisSet kWorld = kDpCp | Axis::PipelineParallel | Axis::Tensor;
/// "dp", "dp_shard_cp", "dp_cp", "world" for those; otherwise the axes joined by "_": "cp_tp"; "self" for none.
std::string to_string(AxisSet axes);

/// Sizes of all axes, each at least 1; the product of the first five is the number of ranks.
struct MeshSizes {
  std::int64_t pp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;  ///< divides dp_shard · cp

  std::int64_t ep_shard() const { return dp_shard * cp / ep; }
  std::int64_t dp() const { return dp_replicate * dp_shard; }
  std::int64_t size(Axis axis) const;
  std::int64_t world_size() const { return pp * dp_replicate * dp_shard * cp * tp; }
  bool operator==(const MeshSizes&) const = default;
};

/// The mesh as one rank sees it.
class MeshContext {
 public:
  /// 0 <= rank < sizes.world_size(); ep divides dp_shard · cp.
  MeshContext(const MeshSizes& sizes, std::int64_t rank);

  const MeshSizes& sizes() const { return sizes_; }
  std::int64_t rank() const { return rank_; }
  std::int64_t world_size() const { return sizes_.world_size(); }

  /// Ranks along these axes: the product of their sizes.
  std::int64_t size(AxisSet axes) const;
  /// This rank's place among them, counted in mesh order (the last axis fastest).
  std::int64_t index(AxisSet axes) const;
  /// The ranks that differ from this one along `axes` only, in the order of `index`; this one is among them.
  std::vector<std::int64_t> group(AxisSet axes) const;
  /// Every such group of the whole mesh, in the order of its first rank: they partition the ranks.
  std::vector<std::vector<std::int64_t>> all_groups(AxisSet axes) const;

  std::int64_t dp_size() const { return size(kDp); }
  std::int64_t dp_rank() const { return index(kDp); }

 private:
  MeshSizes sizes_;
  std::int64_t rank_;
};

/// "rank 5: dp_replicate 1, tp 1"; axes of size 1 are left out, and ep_shard and ep while there is no expert parallelism; "rank 0" when none is left.
std::string describe(const MeshContext& mesh);

}  // namespace tessera::mesh
