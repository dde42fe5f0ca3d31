#pragma once

#include <limits>

#include "tessera/ops/cpu/attention.h"
#include "tessera/ops/cpu/kernels/dropout.h"
#include "tessera/ops/cpu/kernels/math.h"
#include "tessera/ops/cpu/kernels/micro_gemm.h"
#include "tessera/ops/cpu/kernels/transpose.h"

/// What the forward and backward passes of attention share: which keys a query sees, tiles, packing.
namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

inline constexpr std::int64_t kKeyTile = 64;
inline constexpr std::int64_t kMostTokens = 128;    // of a query tile; half of it is a key tile, so causal tiles end together
inline constexpr std::int64_t kMostTileRows = 256;  // (heads of one key head) × tokens of a query tile
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t padded(std::int64_t size) { return divide_up(size, kLanes) * kLanes; }

/// The keys a query sees: every mask this kernel knows leaves an interval [begin, end) of key indices, empty as [0, 0).
struct KeyRange {
  std::int64_t begin;
  std::int64_t end;
  bool empty() const { return begin >= end; }
};

inline KeyRange visible_keys(const AttentionShape& shape, std::int64_t b, std::int64_t t) {
  if (shape.query_lengths != nullptr && t >= shape.query_lengths[b]) return {0, 0};
  const std::int64_t own = shape.query_start + t - shape.key_start;  // index of the key at the query's own position
  KeyRange range{0, smaller(shape.key_length, own + 1)};
  if (shape.key_lengths != nullptr) range.end = smaller(range.end, shape.key_lengths[b]);
  if (shape.window > 0) range.begin = larger(range.begin, own - shape.window + 1);
  if (shape.document_begin != nullptr) range.begin = larger(range.begin, shape.document_begin[b * shape.query_length + t] - shape.key_start);
  return range.empty() ? KeyRange{0, 0} : range;
}

/// The smallest interval that holds all of `ranges`.
inline KeyRange hull(const KeyRange* ranges, std::int64_t count) {
  KeyRange all{0, 0};
  for (std::int64_t i = 0; i < count; ++i) {
    if (ranges[i].empty()) continue;
    all = all.empty() ? ranges[i] : KeyRange{smaller(all.begin, ranges[i].begin), larger(all.end, ranges[i].end)};
  }
  return all;
}

/// How queries are cut: a tile is `tokens` consecutive tokens of `heads` query heads that share a key head; row = head * tokens + token.
struct TileGrid {
  std::int64_t group;         // query heads per key head
  std::int64_t heads;         // of a full tile
  std::int64_t tokens;        // of a full tile
  std::int64_t head_chunks;   // tiles side by side over the group
  std::int64_t token_chunks;  // tiles along T
};

inline TileGrid tile_grid(const AttentionShape& shape) {
  TileGrid grid;
  grid.group = shape.heads / shape.key_heads;
  grid.tokens = smaller(grid.group == 1 ? kMostTokens : kMostTokens / 2, larger(shape.query_length, 1));
  grid.heads = smaller(grid.group, kMostTileRows / grid.tokens);
  grid.head_chunks = divide_up(grid.group, grid.heads);
  grid.token_chunks = divide_up(shape.query_length, grid.tokens);
  return grid;
}

/// One tile: which tokens and heads, and what each token sees.
struct QueryTile {
  std::int64_t b;
  std::int64_t key_head;
  std::int64_t first_head;
  std::int64_t heads;
  std::int64_t first_token;
  std::int64_t tokens;
  KeyRange ranges[kMostTokens];
  KeyRange all;
};

inline void place_tile(const AttentionShape& shape, const TileGrid& grid, std::int64_t b, std::int64_t key_head, std::int64_t head_chunk,
                       std::int64_t token_chunk, QueryTile& tile) {
  tile.b = b;
  tile.key_head = key_head;
  tile.first_head = key_head * grid.group + head_chunk * grid.heads;
  tile.heads = smaller(grid.heads, grid.group - head_chunk * grid.heads);
  tile.first_token = token_chunk * grid.tokens;
  tile.tokens = smaller(grid.tokens, shape.query_length - tile.first_token);
  for (std::int64_t t = 0; t < tile.tokens; ++t) tile.ranges[t] = visible_keys(shape, b, tile.first_token + t);
  tile.all = hull(tile.ranges, tile.tokens);
}

/// The keys of one tile that a block of up to kMicroRows tokens sees, as columns of the tile.
struct BlockColumns {
  std::int64_t columns;  // 0: nothing; the block needs columns [0, columns)
  std::int64_t vectors;  // columns rounded up to whole vectors
  bool masked;           // some (row, column) of the computed vectors is not visible
};

inline BlockColumns block_columns(const KeyRange* ranges, std::int64_t rows, std::int64_t first_key, std::int64_t keys) {
  const KeyRange all = hull(ranges, rows);
  if (all.end <= first_key || all.begin >= first_key + keys) return {0, 0, false};
  BlockColumns block;
  block.columns = smaller(keys, all.end - first_key);
  block.vectors = divide_up(block.columns, kLanes);
  block.masked = false;
  for (std::int64_t r = 0; r < rows; ++r) {
    block.masked |= ranges[r].begin > first_key || ranges[r].end < first_key + block.vectors * kLanes;
  }
  return block;
}

/// Which lanes of the vector of keys that starts at index `key` a query sees.
inline IntVec visible_lanes(KeyRange range, std::int64_t key) {
  const auto bounded = [](std::int64_t x) { return static_cast<std::int32_t>(x < 0 ? 0 : (x > kLanes ? kLanes : x)); };
  const IntVec lanes = lane_numbers();
  return (lanes >= bounded(range.begin - key)) & (lanes < bounded(range.end - key));
}

/// target[i, :] = source[i, :] * factor as fp32, padded with zeros to whole vectors.
template <class T>
inline void pack_rows(const T* source, std::int64_t source_stride, std::int64_t rows, std::int64_t width, float factor, float* target) {
  const std::int64_t stride = padded(width);
  for (std::int64_t i = 0; i < rows; ++i) {
    for_vectors(width, [&](std::int64_t c, auto lanes) { store(target + i * stride + c, load(source + i * source_stride + c, lanes) * factor); });
  }
}

/// target[c, i] = source[i, c] as fp32 with rows of kKeyTile; columns past `rows` are zeros.
template <class T>
inline void pack_transposed(const T* source, std::int64_t source_stride, std::int64_t rows, std::int64_t width, float* target) {
  if (rows < kKeyTile) std::memset(target, 0, static_cast<std::size_t>(width * kKeyTile) * sizeof(float));
  transpose(source, source_stride, rows, width, target, kKeyTile);
}

inline std::uint64_t attention_row_key(const AttentionShape& shape, std::int64_t b, std::int64_t head, std::int64_t token) {
  const std::int64_t sample = shape.samples != nullptr ? shape.samples[b] : b;
  return dropout_row_key(shape.dropout_key, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(shape.head_start + head),
                         static_cast<std::uint64_t>(shape.query_start + token));
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
