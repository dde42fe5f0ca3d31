#include "tessera/model/placement.h"

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::model {
namespace {

// A cache line of fp32: vectors are not cut finer.
constexpr std::int64_t kVectorGranule = 16;

/// The last place not after `position` where the buffer may be cut; positions between two parameters move to the next one.
std::int64_t cut_before(const std::vector<FlatRange>& ranges, std::int64_t position) {
  for (const FlatRange& range : ranges) {
    if (position <= range.begin) return range.begin;
    if (position >= range.begin + range.size) continue;
    const std::int64_t granule = range.row_size == 1 ? kVectorGranule : range.row_size;
    return range.begin + (position - range.begin) / granule * granule;
  }
  return position;
}

Extent elements_of(const ReplicatedRows& rows, const FlatRange& range) {
  const std::int64_t begin = range.begin + rows.row * range.row_size;
  return {begin, begin + rows.num_rows * range.row_size};
}

}  // namespace

Extent intersection(const Extent& a, const Extent& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

std::vector<Extent> row_aligned_parts(const std::vector<FlatRange>& ranges, const Extent& whole, std::int64_t count) {
  TESSERA_ASSERT(count > 0, "a buffer has at least one part");
  std::vector<Extent> parts;
  std::int64_t begin = whole.begin;
  for (std::int64_t part = 1; part <= count; ++part) {
    const std::int64_t target = whole.begin + whole.size() * part / count;
    const std::int64_t end = part == count ? whole.end : std::clamp(cut_before(ranges, target), begin, whole.end);
    parts.push_back({begin, end});
    begin = end;
  }
  return parts;
}

std::vector<Piece> pieces_of_rows(const ParameterSpec& parameter, const Extent& rows) {
  std::vector<Piece> parts;
  for (const Piece& piece : parameter.pieces) {
    const Extent part = intersection({piece.row, piece.row + piece.num_rows()}, rows);
    if (part.size() > 0) parts.push_back(rows_of(piece, part.begin, part.size()));
  }
  return parts;
}

std::vector<PlacedPiece> pieces_within(const ParameterSpec& parameter, const FlatRange& range, const Extent& extent) {
  const Extent common = intersection({range.begin, range.begin + range.size}, extent);
  std::vector<PlacedPiece> pieces;
  if (common.size() == 0) return pieces;
  const std::int64_t first = (common.begin - range.begin) / range.row_size;
  const std::int64_t last = (common.end - range.begin) / range.row_size;
  TESSERA_ASSERT((common.end - range.begin) % range.row_size == 0, "extents are cut between rows");
  for (const Piece& piece : pieces_of_rows(parameter, {first, last})) {
    pieces.push_back(
        {.parameter = range.parameter, .buffer = 0, .piece = piece, .begin = range.begin + piece.row * range.row_size, .row_size = range.row_size});
  }
  return pieces;
}

std::vector<Extent> owned_extents(const ParameterTable& table, const std::vector<FlatRange>& ranges, const Extent& extent) {
  std::vector<Extent> owned;
  std::int64_t done = extent.begin;
  const auto own = [&](const Extent& part) {
    if (part.size() > 0) owned.push_back(part);
  };
  for (const FlatRange& range : ranges) {
    for (const ReplicatedRows& rows : table.parameters[range.parameter].replicated) {
      const Extent shared = intersection(elements_of(rows, range), extent);
      if (shared.size() == 0) continue;
      own({done, shared.begin});
      own(row_aligned_parts({range}, shared, rows.num_holders)[static_cast<std::size_t>(rows.holder)]);
      done = shared.end;
    }
  }
  own({done, extent.end});
  return owned;
}

std::vector<ReplicatedExtent> partial_extents(const ParameterTable& table, const std::vector<FlatRange>& ranges, const Extent& extent) {
  std::vector<ReplicatedExtent> partial;
  for (const FlatRange& range : ranges) {
    for (const ReplicatedRows& rows : table.parameters[range.parameter].replicated) {
      const Extent shared = intersection(elements_of(rows, range), extent);
      if (rows.partial && shared.size() > 0) partial.push_back({shared, rows.num_holders});
    }
  }
  return partial;
}

}  // namespace tessera::model
