#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/attention_tiles.h"
#include "tessera/ops/cpu/kernels/scratch.h"
#include "tessera/ops/cpu/parallel.h"

/// Online softmax over key tiles (Milakov and Gimelshein 2018; Dao, "FlashAttention-2", 2023): for every query row the running maximum m, the running
/// sum of exp(logit - m) by lanes, and the output not yet divided by that sum.
namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

/// One thread's memory: views into one allocation.
struct ForwardBuffers {
  float* query;    // [rows, padded C], times scale
  float* output;   // [rows, padded value_dim]
  float* maximum;  // [rows]
  float* sums;     // [rows, kLanes]
  float* keys;     // [C, kKeyTile]: transposed
  float* values;   // [kKeyTile, padded value_dim]
  float* logits;   // [kMicroRows, kKeyTile]

  static std::int64_t size(const AttentionShape& shape) {
    const std::int64_t per_row = padded(shape.head_dim) + padded(shape.value_dim) + kLanes + kLanes;
    return kMostTileRows * per_row + kKeyTile * (padded(shape.head_dim) + padded(shape.value_dim) + kMicroRows);
  }
  ForwardBuffers(const AttentionShape& shape, float* memory) {
    const auto take = [&](std::int64_t count) {
      float* start = memory;
      memory += count;
      return start;
    };
    query = take(kMostTileRows * padded(shape.head_dim));
    output = take(kMostTileRows * padded(shape.value_dim));
    maximum = take(kMostTileRows * kLanes);
    sums = take(kMostTileRows * kLanes);
    keys = take(kKeyTile * padded(shape.head_dim));
    values = take(kKeyTile * padded(shape.value_dim));
    logits = take(kKeyTile * kMicroRows);
  }
};

template <class T, class O>
void start_tile(const AttentionForward<T, O>& args, const QueryTile& tile, const ForwardBuffers& buffers) {
  const AttentionShape& shape = args.shape;
  for (std::int64_t head = 0; head < tile.heads; ++head) {
    const T* query = args.query + tile.b * args.query_strides.batch + (tile.first_head + head) * args.query_strides.head +
                     tile.first_token * args.query_strides.token;
    pack_rows(query, args.query_strides.token, tile.tokens, shape.head_dim, shape.scale, buffers.query + head * tile.tokens * padded(shape.head_dim));
  }
  const std::int64_t rows = tile.heads * tile.tokens;
  std::memset(buffers.output, 0, static_cast<std::size_t>(rows * padded(shape.value_dim)) * sizeof(float));
  std::memset(buffers.sums, 0, static_cast<std::size_t>(rows * kLanes) * sizeof(float));
  for (std::int64_t row = 0; row < rows; ++row) {
    buffers.maximum[row] = -kInfinity;
    if (shape.sinks == nullptr) continue;
    // A sink is one more key, already seen, with no value.
    buffers.maximum[row] = shape.sinks[tile.first_head + row / tile.tokens];
    buffers.sums[row * kLanes] = 1.0f;
  }
}

struct RowOfLogits {
  float* logits;  // [vectors * kLanes]
  std::int64_t vectors;
  std::int64_t first_key;
  KeyRange range;
  bool masked;
};

/// Soft cap and mask in place; returns the largest logit.
inline float finish_logits(const RowOfLogits& row, float softcap) {
  Vec top = broadcast(-kInfinity);
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    Vec z = load(row.logits + v * kLanes);
    if (softcap > 0.0f) z = softcap * tanh(z * (1.0f / softcap));
    if (row.masked) z = select(visible_lanes(row.range, row.first_key + v * kLanes), z, broadcast(-kInfinity));
    if (softcap > 0.0f || row.masked) store(row.logits + v * kLanes, z);
    top = max(z, top);
  }
  return largest(top);
}

/// Replaces the logits by exp(logit - m) with m the new running maximum; rescales what the row has gathered so far.
inline void softmax_step(const RowOfLogits& row, float softcap, float* maximum, float* sums, float* output, std::int64_t output_width) {
  const float top = finish_logits(row, softcap);
  const float raised = top > *maximum ? top : *maximum;
  const float shift = raised == -kInfinity ? 0.0f : raised;  // so that a NaN logit survives and masked ones give 0
  Vec total = load(sums);
  if (raised != *maximum) {
    const float shrink = *maximum == -kInfinity ? 0.0f : std::exp(*maximum - raised);
    total *= shrink;
    for (std::int64_t c = 0; c < output_width; c += kLanes) store(output + c, load(output + c) * shrink);
    *maximum = raised;
  }
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    const Vec p = exp_nonpositive(load(row.logits + v * kLanes) - shift);
    store(row.logits + v * kLanes, p);
    total += p;
  }
  store(sums, total);
}

struct KeyTile {
  std::int64_t first;
  std::int64_t keys;
};

/// One block of up to kMicroRows tokens of one head against one key tile.
template <class T, class O>
void forward_block(const AttentionForward<T, O>& args, const QueryTile& tile, const KeyTile& keys, const ForwardBuffers& buffers, std::int64_t head,
                   std::int64_t token, std::int64_t rows) {
  const AttentionShape& shape = args.shape;
  const BlockColumns block = block_columns(tile.ranges + token, rows, keys.first, keys.keys);
  if (block.columns == 0) return;
  const std::int64_t query_width = padded(shape.head_dim);
  const std::int64_t value_width = padded(shape.value_dim);
  const std::int64_t first_row = head * tile.tokens + token;
  small_gemm<false>(rows, block.vectors, shape.head_dim, {buffers.query + first_row * query_width, query_width, 1}, {buffers.keys, kKeyTile},
                    {buffers.logits, kKeyTile});
  for (std::int64_t r = 0; r < rows; ++r) {
    float* logits = buffers.logits + r * kKeyTile;
    const RowOfLogits row{logits, block.vectors, keys.first, tile.ranges[token + r], block.masked};
    softmax_step(row, shape.softcap, buffers.maximum + first_row + r, buffers.sums + (first_row + r) * kLanes,
                 buffers.output + (first_row + r) * value_width, value_width);
    if (shape.dropout > 0.0f) {
      const DropoutMask mask(shape.dropout);
      const std::uint64_t key = attention_row_key(shape, tile.b, tile.first_head + head, tile.first_token + token + r);
      for (std::int64_t v = 0; v < block.vectors; ++v) {
        const auto element = static_cast<std::uint32_t>(shape.key_start + keys.first + v * kLanes);
        store(logits + v * kLanes, mask.apply(load(logits + v * kLanes), key, element));
      }
    }
  }
  small_gemm<true>(rows, value_width / kLanes, block.columns, {buffers.logits, kKeyTile, 1}, {buffers.values, value_width},
                   {buffers.output + first_row * value_width, value_width});
}

template <class T, class O>
void finish_row(const AttentionForward<T, O>& args, const QueryTile& tile, const ForwardBuffers& buffers, std::int64_t head, std::int64_t token) {
  const AttentionShape& shape = args.shape;
  const std::int64_t row = head * tile.tokens + token;
  const float total = sum(load(buffers.sums + row * kLanes));
  const float factor = total == 0.0f ? 0.0f : 1.0f / total;
  const std::int64_t h = tile.first_head + head;
  const std::int64_t t = tile.first_token + token;
  O* output = args.output + tile.b * args.output_strides.batch + h * args.output_strides.head + t * args.output_strides.token;
  const float* gathered = buffers.output + row * padded(shape.value_dim);
  for_vectors(shape.value_dim, [&](std::int64_t c, auto lanes) { store(output + c, load(gathered + c) * factor, lanes); });
  if (args.lse == nullptr) return;
  args.lse[(tile.b * shape.heads + h) * shape.query_length + t] = total == 0.0f ? -kInfinity : buffers.maximum[row] + std::log(total);
}

template <class T, class O>
void forward_tile(const AttentionForward<T, O>& args, const QueryTile& tile, const ForwardBuffers& buffers) {
  const AttentionShape& shape = args.shape;
  start_tile(args, tile, buffers);
  const T* all_keys = args.key + tile.b * args.key_strides.batch + tile.key_head * args.key_strides.head;
  const T* all_values = args.value + tile.b * args.value_strides.batch + tile.key_head * args.value_strides.head;
  for (std::int64_t first = tile.all.begin; first < tile.all.end; first += kKeyTile) {
    const KeyTile keys{first, smaller(kKeyTile, tile.all.end - first)};
    pack_transposed(all_keys + first * args.key_strides.token, args.key_strides.token, keys.keys, shape.head_dim, buffers.keys);
    pack_rows(all_values + first * args.value_strides.token, args.value_strides.token, keys.keys, shape.value_dim, 1.0f, buffers.values);
    for (std::int64_t head = 0; head < tile.heads; ++head) {
      for (std::int64_t token = 0; token < tile.tokens; token += kMicroRows) {
        forward_block(args, tile, keys, buffers, head, token, smaller(kMicroRows, tile.tokens - token));
      }
    }
  }
  for (std::int64_t head = 0; head < tile.heads; ++head) {
    for (std::int64_t token = 0; token < tile.tokens; ++token) finish_row(args, tile, buffers, head, token);
  }
}

template <class T, class O>
void attention_forward_kernel(const AttentionForward<T, O>& args) {
  const AttentionShape& shape = args.shape;
  const TileGrid grid = tile_grid(shape);
  const std::int64_t tiles = grid.token_chunks * grid.head_chunks;  // of one (row, key head): neighbours, so that they find its keys in cache
  const std::int64_t items = shape.batch * shape.key_heads * tiles;
  if (items <= 0) return;
  const int workers = parallel_workers(items);
  const std::int64_t buffer_size = padded(ForwardBuffers::size(shape));
  const Scratch memory(workers * buffer_size);
  parallel_tasks(items, workers, [&](std::int64_t item, int worker) {
    const std::int64_t pair = item / tiles;
    // The last tokens first: under a causal mask they see the most keys.
    const std::int64_t token_chunk = grid.token_chunks - 1 - item % tiles / grid.head_chunks;
    QueryTile tile;
    place_tile(shape, grid, pair / shape.key_heads, pair % shape.key_heads, item % grid.head_chunks, token_chunk, tile);
    forward_tile(args, tile, ForwardBuffers(shape, memory.data() + worker * buffer_size));
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(attention_forward_kernel, AttentionForward<float, float>)
TESSERA_KERNEL(attention_forward_kernel, AttentionForward<bfloat16, bfloat16>)
TESSERA_KERNEL(attention_forward_kernel, AttentionForward<bfloat16, float>)

}  // namespace tessera::ops::cpu
