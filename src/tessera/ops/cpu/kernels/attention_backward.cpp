#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/attention_tiles.h"
#include "tessera/ops/cpu/kernels/scratch.h"
#include "tessera/ops/cpu/parallel.h"

/// With P the softmax, M the dropout factors (0 or 1 / (1 - p)), z the logits and delta[t] = dout[t] · out[t]:
///   dV = (P M)ᵀ dO,  dz = P (M (dO Vᵀ) - delta),  d(scale q·k) = dz * (1 - (z / cap)²),  dQ = scale dz K,  dK = dzᵀ (scale Q),
///   dsink = -sum over queries of exp(sink - lse) delta.
/// Query tiles run outside and key tiles inside, so dQ stays in the tile; dK and dV of one key head are gathered in fp32. When there are fewer
/// (row, key head) pairs than threads, the query tiles of a pair are dealt out to several items, each with its own dK and dV, summed in order.
namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

struct BackwardBuffers {
  float* query;            // [rows, padded C], times scale
  float* output_gradient;  // [rows, padded value_dim]
  float* query_gradient;   // [rows, padded C]
  float* lse;              // [rows]; +infinity where the query sees nothing
  float* delta;            // [rows]
  float* keys;             // [kKeyTile, padded C]
  float* keys_transposed;  // [C, kKeyTile]
  float* values;           // [value_dim, kKeyTile]: transposed
  float* weights;          // [kMostTokens, kKeyTile]: logits, then P M
  float* logit_gradients;  // [kMostTokens, kKeyTile]: dO Vᵀ, then dz

  static std::int64_t size(const AttentionShape& shape) {
    const std::int64_t per_row = 2 * padded(shape.head_dim) + padded(shape.value_dim) + 2;
    return kMostTileRows * per_row + kKeyTile * (2 * padded(shape.head_dim) + padded(shape.value_dim) + 2 * kMostTokens);
  }
  BackwardBuffers(const AttentionShape& shape, float* memory) {
    const auto take = [&](std::int64_t count) {
      float* start = memory;
      memory += count;
      return start;
    };
    query = take(kMostTileRows * padded(shape.head_dim));
    output_gradient = take(kMostTileRows * padded(shape.value_dim));
    query_gradient = take(kMostTileRows * padded(shape.head_dim));
    lse = take(kMostTileRows);
    delta = take(kMostTileRows);
    keys = take(kKeyTile * padded(shape.head_dim));
    keys_transposed = take(kKeyTile * padded(shape.head_dim));
    values = take(kKeyTile * padded(shape.value_dim));
    weights = take(kMostTokens * kKeyTile);
    logit_gradients = take(kMostTokens * kKeyTile);
  }
};

/// Where one item gathers its gradients of keys, values and sinks.
struct KeyGradients {
  float* keys;    // [S, padded C]
  float* values;  // [S, padded value_dim]
  float* sinks;   // [H / K]

  static std::int64_t size(const AttentionShape& shape) {
    return shape.key_length * (padded(shape.head_dim) + padded(shape.value_dim)) + padded(shape.heads / shape.key_heads);
  }
  KeyGradients(const AttentionShape& shape, float* memory)
      : keys(memory),
        values(memory + shape.key_length * padded(shape.head_dim)),
        sinks(memory + shape.key_length * (padded(shape.head_dim) + padded(shape.value_dim))) {}
};

template <class T>
inline const T* at(const T* base, const HeadStrides& strides, std::int64_t b, std::int64_t head, std::int64_t token) {
  return base + b * strides.batch + head * strides.head + token * strides.token;
}

template <class T>
inline float dot(const T* a, const T* b, std::int64_t size) {
  Vec total = {};
  for_vectors(size, [&](std::int64_t c, auto lanes) { total += load(a + c, lanes) * load(b + c, lanes); });
  return sum(total);
}

template <class T, class G>
void start_tile(const AttentionBackward<T, G>& args, const QueryTile& tile, const BackwardBuffers& buffers, const KeyGradients& gradients) {
  const AttentionShape& shape = args.shape;
  for (std::int64_t head = 0; head < tile.heads; ++head) {
    const std::int64_t h = tile.first_head + head;
    const std::int64_t row = head * tile.tokens;
    const T* dout = at(args.output_gradient, args.output_gradient_strides, tile.b, h, tile.first_token);
    const T* out = at(args.output, args.output_strides, tile.b, h, tile.first_token);
    pack_rows(at(args.query, args.query_strides, tile.b, h, tile.first_token), args.query_strides.token, tile.tokens, shape.head_dim, shape.scale,
              buffers.query + row * padded(shape.head_dim));
    pack_rows(dout, args.output_gradient_strides.token, tile.tokens, shape.value_dim, 1.0f, buffers.output_gradient + row * padded(shape.value_dim));
    const float* lse = args.lse + (tile.b * shape.heads + h) * shape.query_length + tile.first_token;
    for (std::int64_t t = 0; t < tile.tokens; ++t) {
      buffers.lse[row + t] = lse[t] == -kInfinity ? kInfinity : lse[t];
      buffers.delta[row + t] = dot(dout + t * args.output_gradient_strides.token, out + t * args.output_strides.token, shape.value_dim);
      if (shape.sinks == nullptr || args.sink_gradient == nullptr) continue;
      gradients.sinks[h - tile.key_head * (shape.heads / shape.key_heads)] -=
          std::exp(shape.sinks[h] - buffers.lse[row + t]) * buffers.delta[row + t];
    }
  }
  std::memset(buffers.query_gradient, 0, static_cast<std::size_t>(tile.heads * tile.tokens * padded(shape.head_dim)) * sizeof(float));
}

struct KeyTile {
  std::int64_t first;
  std::int64_t keys;
};

/// One query row against one key tile: `weights` turns from logits into P M, `gradients` from dO Vᵀ into dz. Columns past the block become zeros.
inline void finish_weights(const AttentionShape& shape, const QueryTile& tile, const KeyTile& keys, std::int64_t head, std::int64_t token,
                           const BlockColumns& block, const BackwardBuffers& buffers) {
  const std::int64_t row = head * tile.tokens + token;
  float* weights = buffers.weights + token * kKeyTile;
  float* gradients = buffers.logit_gradients + token * kKeyTile;
  const DropoutMask mask(shape.dropout);
  const std::uint64_t key = shape.dropout > 0.0f ? attention_row_key(shape, tile.b, tile.first_head + head, tile.first_token + token) : 0;
  const float inverse_cap = shape.softcap > 0.0f ? 1.0f / shape.softcap : 0.0f;
  for (std::int64_t v = 0; v < block.vectors; ++v) {
    Vec z = load(weights + v * kLanes);
    Vec slope = broadcast(1.0f);
    if (shape.softcap > 0.0f) {
      const Vec t = tanh(z * inverse_cap);
      z = shape.softcap * t;
      slope = 1.0f - t * t;
    }
    Vec p = exp(z - buffers.lse[row]);
    Vec dp = load(gradients + v * kLanes);
    Vec dropped = p;
    if (shape.dropout > 0.0f) {
      const auto element = static_cast<std::uint32_t>(shape.key_start + keys.first + v * kLanes);
      dp = mask.apply(dp, key, element);
      dropped = mask.apply(p, key, element);
    }
    Vec dz = p * (dp - buffers.delta[row]) * slope;
    if (block.masked) {
      const IntVec visible = visible_lanes(tile.ranges[token], keys.first + v * kLanes);
      dropped = select(visible, dropped, Vec{});
      dz = select(visible, dz, Vec{});
    }
    store(weights + v * kLanes, dropped);
    store(gradients + v * kLanes, dz);
  }
  for (std::int64_t v = block.vectors; v < kKeyTile / kLanes; ++v) {
    store(weights + v * kLanes, Vec{});
    store(gradients + v * kLanes, Vec{});
  }
}

/// Logits, weights, their gradients and dQ for up to kMicroRows tokens of one head against one key tile.
inline void backward_block(const AttentionShape& shape, const QueryTile& tile, const KeyTile& keys, const BackwardBuffers& buffers, std::int64_t head,
                           std::int64_t token, std::int64_t rows) {
  const std::int64_t query_width = padded(shape.head_dim);
  const std::int64_t value_width = padded(shape.value_dim);
  const std::int64_t first_row = head * tile.tokens + token;
  const BlockColumns block = block_columns(tile.ranges + token, rows, keys.first, keys.keys);
  float* weights = buffers.weights + token * kKeyTile;
  float* gradients = buffers.logit_gradients + token * kKeyTile;
  small_gemm<false>(rows, block.vectors, shape.head_dim, {buffers.query + first_row * query_width, query_width, 1},
                    {buffers.keys_transposed, kKeyTile}, {weights, kKeyTile});
  small_gemm<false>(rows, block.vectors, shape.value_dim, {buffers.output_gradient + first_row * value_width, value_width, 1},
                    {buffers.values, kKeyTile}, {gradients, kKeyTile});
  for (std::int64_t r = 0; r < rows; ++r) finish_weights(shape, tile, keys, head, token + r, block, buffers);
  small_gemm<true>(rows, query_width / kLanes, block.columns, {gradients, kKeyTile, 1}, {buffers.keys, query_width},
                   {buffers.query_gradient + first_row * query_width, query_width});
}

/// The tokens of a tile that see any of the keys, as [first, last).
inline KeyRange tokens_that_see(const QueryTile& tile, const KeyTile& keys) {
  KeyRange tokens{tile.tokens, 0};
  for (std::int64_t t = 0; t < tile.tokens; ++t) {
    const KeyRange range = tile.ranges[t];
    if (range.empty() || range.end <= keys.first || range.begin >= keys.first + keys.keys) continue;
    tokens = {smaller(tokens.begin, t), t + 1};
  }
  return tokens;
}

inline void backward_key_tile(const AttentionShape& shape, const QueryTile& tile, const KeyTile& keys, const BackwardBuffers& buffers,
                              const KeyGradients& gradients) {
  const std::int64_t query_width = padded(shape.head_dim);
  const std::int64_t value_width = padded(shape.value_dim);
  const KeyRange tokens = tokens_that_see(tile, keys);
  for (std::int64_t head = 0; head < tile.heads; ++head) {
    for (std::int64_t token = tokens.begin; token < tokens.end; token += kMicroRows) {
      backward_block(shape, tile, keys, buffers, head, token, smaller(kMicroRows, tokens.end - token));
    }
    // Transposed in place: a row of the left matrix is a column of the weights.
    const std::int64_t first_row = head * tile.tokens + tokens.begin;
    const std::int64_t depth = tokens.end - tokens.begin;
    small_gemm<true>(keys.keys, value_width / kLanes, depth, {buffers.weights + tokens.begin * kKeyTile, 1, kKeyTile},
                     {buffers.output_gradient + first_row * value_width, value_width}, {gradients.values + keys.first * value_width, value_width});
    small_gemm<true>(keys.keys, query_width / kLanes, depth, {buffers.logit_gradients + tokens.begin * kKeyTile, 1, kKeyTile},
                     {buffers.query + first_row * query_width, query_width}, {gradients.keys + keys.first * query_width, query_width});
  }
}

template <class T, class G>
void write_query_gradient(const AttentionBackward<T, G>& args, const QueryTile& tile, const BackwardBuffers& buffers) {
  const std::int64_t width = padded(args.shape.head_dim);
  for (std::int64_t head = 0; head < tile.heads; ++head) {
    G* target = args.query_gradient + tile.b * args.query_gradient_strides.batch + (tile.first_head + head) * args.query_gradient_strides.head +
                tile.first_token * args.query_gradient_strides.token;
    for (std::int64_t t = 0; t < tile.tokens; ++t) {
      const float* source = buffers.query_gradient + (head * tile.tokens + t) * width;
      for_vectors(args.shape.head_dim, [&](std::int64_t c, auto lanes) {
        store(target + t * args.query_gradient_strides.token + c, load(source + c) * args.shape.scale, lanes);
      });
    }
  }
}

template <class T, class G>
void backward_tile(const AttentionBackward<T, G>& args, const QueryTile& tile, const BackwardBuffers& buffers, const KeyGradients& gradients) {
  const AttentionShape& shape = args.shape;
  start_tile(args, tile, buffers, gradients);
  for (std::int64_t first = tile.all.begin; first < tile.all.end; first += kKeyTile) {
    const KeyTile keys{first, smaller(kKeyTile, tile.all.end - first)};
    const T* key = at(args.key, args.key_strides, tile.b, tile.key_head, first);
    pack_rows(key, args.key_strides.token, keys.keys, shape.head_dim, 1.0f, buffers.keys);
    pack_transposed(key, args.key_strides.token, keys.keys, shape.head_dim, buffers.keys_transposed);
    pack_transposed(at(args.value, args.value_strides, tile.b, tile.key_head, first), args.value_strides.token, keys.keys, shape.value_dim,
                    buffers.values);
    backward_key_tile(shape, tile, keys, buffers, gradients);
  }
  write_query_gradient(args, tile, buffers);
}

/// gradient[s, :] = sum over the parts, part i standing i * part_stride further.
template <class G>
void sum_parts(const float* parts, std::int64_t num_parts, std::int64_t part_stride, std::int64_t width, G* target) {
  for_vectors(width, [&](std::int64_t c, auto lanes) {
    Vec total = load(parts + c);
    for (std::int64_t part = 1; part < num_parts; ++part) total += load(parts + part * part_stride + c);
    store(target + c, total, lanes);
  });
}

/// Parts of the key gradients: [batch, key_heads, splits] of KeyGradients::size each.
struct Parts {
  float* memory;
  std::int64_t size;
  std::int64_t splits;
};

template <class T, class G>
void write_key_gradients(const AttentionBackward<T, G>& args, const Parts& parts) {
  const AttentionShape& shape = args.shape;
  parallel_for(0, shape.batch * shape.key_heads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t pair = first; pair < last; ++pair) {
      const std::int64_t b = pair / shape.key_heads;
      const std::int64_t key_head = pair % shape.key_heads;
      const KeyGradients gradients(shape, parts.memory + pair * parts.splits * parts.size);
      G* dk = args.key_gradient + b * args.key_gradient_strides.batch + key_head * args.key_gradient_strides.head;
      G* dv = args.value_gradient + b * args.value_gradient_strides.batch + key_head * args.value_gradient_strides.head;
      for (std::int64_t s = 0; s < shape.key_length; ++s) {
        sum_parts(gradients.keys + s * padded(shape.head_dim), parts.splits, parts.size, shape.head_dim, dk + s * args.key_gradient_strides.token);
        sum_parts(gradients.values + s * padded(shape.value_dim), parts.splits, parts.size, shape.value_dim,
                  dv + s * args.value_gradient_strides.token);
      }
    }
  });
}

template <class T, class G>
void add_sink_gradients(const AttentionBackward<T, G>& args, const Parts& parts) {
  const AttentionShape& shape = args.shape;
  if (shape.sinks == nullptr || args.sink_gradient == nullptr) return;
  const std::int64_t group = shape.heads / shape.key_heads;
  for (std::int64_t item = 0; item < shape.batch * shape.key_heads * parts.splits; ++item) {
    const KeyGradients gradients(shape, parts.memory + item * parts.size);
    const std::int64_t key_head = item / parts.splits % shape.key_heads;
    for (std::int64_t g = 0; g < group; ++g) args.sink_gradient[key_head * group + g] += gradients.sinks[g];
  }
}

/// Items per (row, key head): more than one only when the pairs alone would leave threads idle.
inline std::int64_t number_of_splits(const AttentionShape& shape, const TileGrid& grid) {
  const std::int64_t pairs = shape.batch * shape.key_heads;
  const std::int64_t threads = parallel_workers(std::numeric_limits<std::int32_t>::max());
  if (threads == 1 || pairs >= 2 * threads) return 1;
  return larger(1, smaller(divide_up(2 * threads, pairs), grid.token_chunks * grid.head_chunks));
}

template <class T, class G>
void attention_backward_kernel(const AttentionBackward<T, G>& args) {
  const AttentionShape& shape = args.shape;
  const TileGrid grid = tile_grid(shape);
  const std::int64_t pairs = shape.batch * shape.key_heads;
  if (pairs <= 0) return;
  const std::int64_t splits = number_of_splits(shape, grid);
  const std::int64_t items = pairs * splits;
  const Parts parts{nullptr, padded(KeyGradients::size(shape)), splits};
  const Scratch part_memory(items * parts.size);
  const int workers = parallel_workers(items);
  const std::int64_t buffer_size = padded(BackwardBuffers::size(shape));
  const Scratch memory(workers * buffer_size);
  parallel_tasks(items, workers, [&](std::int64_t item, int worker) {
    const std::int64_t pair = item / splits;
    float* part = part_memory.data() + item * parts.size;
    std::memset(part, 0, static_cast<std::size_t>(parts.size) * sizeof(float));
    QueryTile tile;
    for (std::int64_t index = item % splits; index < grid.token_chunks * grid.head_chunks; index += splits) {
      place_tile(shape, grid, pair / shape.key_heads, pair % shape.key_heads, index % grid.head_chunks, index / grid.head_chunks, tile);
      backward_tile(args, tile, BackwardBuffers(shape, memory.data() + worker * buffer_size), KeyGradients(shape, part));
    }
  });
  write_key_gradients(args, {part_memory.data(), parts.size, splits});
  add_sink_gradients(args, {part_memory.data(), parts.size, splits});
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(attention_backward_kernel, AttentionBackward<float, float>)
TESSERA_KERNEL(attention_backward_kernel, AttentionBackward<bfloat16, bfloat16>)
TESSERA_KERNEL(attention_backward_kernel, AttentionBackward<bfloat16, float>)

}  // namespace tessera::ops::cpu
