#pragma once

#include <cstdint>
#include <vector>

#include "tessera/model/parameter_table.h"

/// Where the elements of a unit's flat buffer lie when several ranks share the work: arithmetic, without tensors.
namespace tessera::model {

/// Elements [begin, end).
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};
/// What both have in common; an empty extent when nothing.
Extent intersection(const Extent& a, const Extent& b);

/// This rank's place among those that share a store. The default is one process, which holds everything.
struct Placement {
  std::int64_t num_shards = 1;    ///< masters and moments are cut into this many parts; ranks with different `shard` hold different ones
  std::int64_t shard = 0;         ///< which part this rank holds
  std::int64_t num_replicas = 1;  ///< ranks that hold the same part; each owns a share of it, counts it in norms and saves it
  std::int64_t replica = 0;
  bool whole_weights = true;    ///< the compute weights of every unit stay here whole; else only the held part does, between uses
  bool whole_gradients = true;  ///< the same of the gradient accumulators
};

/// One parameter's elements in a flat buffer.
struct FlatRange {
  std::size_t parameter = 0;  ///< index into the table
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t row_size = 1;  ///< elements of one row of the parameter: 1 for vectors
};

/// Cuts an extent of a buffer with these ranges into `count` parts of nearly equal size, so that no cut lies inside a row (nor, in vectors, off a
/// multiple of 16 elements): what a rank holds of a parameter is then one box of each of its pieces. Some parts are empty when there are more parts
/// than rows.
std::vector<Extent> row_aligned_parts(const std::vector<FlatRange>& ranges, const Extent& whole, std::int64_t count);

/// Those parts of a parameter's pieces that fill its local rows `rows`; their rows are still counted in the whole parameter.
std::vector<Piece> pieces_of_rows(const ParameterSpec& parameter, const Extent& rows);

/// A box of one checkpoint tensor within some extent of a flat buffer.
struct PlacedPiece {
  std::size_t parameter = 0;  ///< index into the table
  std::size_t buffer = 0;
  Piece piece;                ///< the part of the table's piece that lies here
  std::int64_t begin = 0;     ///< of its first element in the buffer
  std::int64_t row_size = 1;  ///< elements of a local row
};
/// The pieces of one parameter within `extent`.
std::vector<PlacedPiece> pieces_within(const ParameterSpec& parameter, const FlatRange& range, const Extent& extent);

/// The parts of `extent` that are this rank's own where it shares replicated rows with others: all of it but what the other holders get of those
/// rows, which are cut evenly between them.
std::vector<Extent> owned_extents(const ParameterTable& table, const std::vector<FlatRange>& ranges, const Extent& extent);

/// The elements of some replicated rows.
struct ReplicatedExtent {
  Extent extent;
  std::int64_t num_holders = 1;
};
/// Those within `extent` of which each holder computes a share of the gradient.
std::vector<ReplicatedExtent> partial_extents(const ParameterTable& table, const std::vector<FlatRange>& ranges, const Extent& extent);

}  // namespace tessera::model
