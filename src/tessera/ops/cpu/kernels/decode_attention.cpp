#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/attention_tiles.h"
#include "tessera/ops/cpu/kernels/scratch.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

/// What one tile of keys contributes to one query head: [maximum, sum, output padded to vectors].
struct PartialResult {
  float* maximum;
  float* total;
  float* output;
};

/// Work is cut into (row, tile of kKeyTile cached entries), all heads together, so that one long row keeps every thread busy and each entry is
/// read from memory once.
template <class T>
struct DecodePlan {
  const DecodeAttention<T>& args;
  std::int64_t group;
  std::int64_t tiles;  // of the longest row
  std::int64_t partial_size;
  float* partials;  // [batch, tiles, heads] results
  float* queries;   // [batch, heads, padded head_dim], times scale

  PartialResult partial(std::int64_t b, std::int64_t tile, std::int64_t head) const {
    float* start = partials + ((b * tiles + tile) * args.heads + head) * partial_size;
    return {start, start + 1, start + kLanes};
  }
  const float* query(std::int64_t b, std::int64_t head) const { return queries + (b * args.heads + head) * padded(args.head_dim); }
};

/// One thread's memory.
struct DecodeBuffers {
  float* keys;    // [C, kKeyTile]: transposed
  float* values;  // [kKeyTile, padded value_dim]
  float* logits;  // [group, kKeyTile]

  static std::int64_t size(std::int64_t head_dim, std::int64_t value_dim, std::int64_t group) {
    return kKeyTile * (padded(head_dim) + padded(value_dim) + group);
  }
};

/// The visible entries of row b.
template <class T>
KeyRange cached_range(const DecodeAttention<T>& args, std::int64_t b) {
  const std::int64_t length = args.lengths[b];
  return {args.window > 0 ? larger(0, length - args.window) : 0, length};
}

/// Asks for entries that are read soon: those of one head lie apart, where the hardware does not look ahead.
template <class T>
inline void prefetch_entries(const T* first, std::int64_t stride, std::int64_t count, std::int64_t width) {
  for (std::int64_t k = 0; k < count; ++k) {
    const char* start = reinterpret_cast<const char*>(first + k * stride);
    for (std::int64_t byte = 0; byte < width * static_cast<std::int64_t>(sizeof(T)); byte += 64) __builtin_prefetch(start + byte);
  }
}

/// logits -> exp(logit - maximum).
inline void softmax_of_tile(float* logits, std::int64_t count, float softcap, PartialResult result) {
  if (softcap > 0.0f) {
    for_vectors(count, [&](std::int64_t k, auto lanes) { store(logits + k, softcap * tanh(load(logits + k, lanes) / softcap), lanes); });
  }
  float top = -kInfinity;
  for (std::int64_t k = 0; k < count; ++k) top = logits[k] > top ? logits[k] : top;
  const float shift = top == -kInfinity ? 0.0f : top;
  Vec total = {};
  for_vectors(count, [&](std::int64_t k, auto lanes) {
    const Vec p = keep(exp_nonpositive(load(logits + k, lanes) - shift), lanes);
    store(logits + k, p, lanes);
    total += p;
  });
  *result.maximum = top;
  *result.total = sum(total);
}

/// One tile of keys for the query heads of one key head. `keys` and `values` point at the tile's first entry.
template <class T>
void decode_group(const DecodePlan<T>& plan, std::int64_t b, std::int64_t tile, std::int64_t key_head, const T* keys, const T* values,
                  std::int64_t count, const DecodeBuffers& buffers) {
  const DecodeAttention<T>& args = plan.args;
  const std::int64_t value_width = padded(args.value_dim);
  const std::int64_t first_head = key_head * plan.group;
  prefetch_entries(values, args.value_strides.token, count, args.value_dim);
  pack_transposed(keys, args.key_strides.token, count, args.head_dim, buffers.keys);
  small_gemm<false>(plan.group, divide_up(count, kLanes), args.head_dim, {plan.query(b, first_head), padded(args.head_dim), 1},
                    {buffers.keys, kKeyTile}, {buffers.logits, kKeyTile});
  if (key_head + 1 < args.key_heads) prefetch_entries(keys + args.key_strides.head, args.key_strides.token, count, args.head_dim);
  for (std::int64_t g = 0; g < plan.group; ++g) {
    const PartialResult result = plan.partial(b, tile, first_head + g);
    softmax_of_tile(buffers.logits + g * kKeyTile, count, args.softcap, result);
    std::memset(result.output, 0, static_cast<std::size_t>(value_width) * sizeof(float));
  }
  pack_rows(values, args.value_strides.token, count, args.value_dim, 1.0f, buffers.values);
  small_gemm<true>(plan.group, value_width / kLanes, count, {buffers.logits, kKeyTile, 1}, {buffers.values, value_width},
                   {plan.partial(b, tile, first_head).output, plan.partial_size});
}

template <class T>
void decode_tile(const DecodePlan<T>& plan, std::int64_t b, std::int64_t tile, KeyRange range, const DecodeBuffers& buffers) {
  const DecodeAttention<T>& args = plan.args;
  for (std::int64_t key_head = 0; key_head < args.key_heads; ++key_head) {
    const T* keys = args.key + b * args.key_strides.batch + key_head * args.key_strides.head + range.begin * args.key_strides.token;
    const T* values = args.value + b * args.value_strides.batch + key_head * args.value_strides.head + range.begin * args.value_strides.token;
    decode_group(plan, b, tile, key_head, keys, values, range.end - range.begin, buffers);
  }
}

/// Adds the tiles of one head up in order.
template <class T>
void combine_tiles(const DecodePlan<T>& plan, std::int64_t b, std::int64_t head, std::int64_t tiles) {
  const DecodeAttention<T>& args = plan.args;
  float top = args.sinks != nullptr ? args.sinks[head] : -kInfinity;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const float maximum = *plan.partial(b, tile, head).maximum;
    top = maximum > top ? maximum : top;
  }
  const float shift = top == -kInfinity ? 0.0f : top;
  float total = args.sinks != nullptr ? std::exp(args.sinks[head] - shift) : 0.0f;
  const Scratch output(padded(args.value_dim));
  std::memset(output.data(), 0, static_cast<std::size_t>(padded(args.value_dim)) * sizeof(float));
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const PartialResult part = plan.partial(b, tile, head);
    const float weight =
        *part.maximum == -kInfinity && *part.total == 0.0f ? 0.0f : std::exp((*part.maximum == -kInfinity ? 0.0f : *part.maximum) - shift);
    total += *part.total * weight;
    for (std::int64_t c = 0; c < args.value_dim; c += kLanes) store(output.data() + c, load(output.data() + c) + load(part.output + c) * weight);
  }
  const float factor = total == 0.0f ? 0.0f : 1.0f / total;
  T* target = args.output + b * args.output_strides.batch + head * args.output_strides.head;
  for_vectors(args.value_dim, [&](std::int64_t c, auto lanes) { store(target + c, load(output.data() + c) * factor, lanes); });
}

template <class T>
void pack_queries(const DecodeAttention<T>& args, float* queries) {
  const HeadStrides& strides = args.query_strides;
  for (std::int64_t b = 0; b < args.batch; ++b) {
    pack_rows(args.query + b * strides.batch, strides.head, args.heads, args.head_dim, args.scale, queries + b * args.heads * padded(args.head_dim));
  }
}

template <class T>
std::int64_t most_visible(const DecodeAttention<T>& args) {
  std::int64_t most = 0;
  for (std::int64_t b = 0; b < args.batch; ++b) most = larger(most, cached_range(args, b).end - cached_range(args, b).begin);
  return most;
}

template <class T>
void decode_attention_kernel(const DecodeAttention<T>& args) {
  if (args.batch <= 0 || args.heads <= 0) return;
  constexpr std::int64_t kWorthThreads = 65536;  // multiply-adds
  const std::int64_t group = args.heads / args.key_heads;
  const std::int64_t most_keys = most_visible(args);
  const std::int64_t tiles = divide_up(most_keys, kKeyTile);
  const int workers = args.batch * args.heads * most_keys * args.head_dim < kWorthThreads ? 1 : parallel_workers(args.batch * tiles);
  const std::int64_t partial_size = kLanes + padded(args.value_dim);
  const Scratch partials(args.batch * args.heads * tiles * partial_size);
  const Scratch queries(args.batch * args.heads * padded(args.head_dim));
  const std::int64_t buffer_size = DecodeBuffers::size(args.head_dim, args.value_dim, group);
  const Scratch memory(workers * buffer_size);
  pack_queries(args, queries.data());
  const DecodePlan<T> plan{args, group, tiles, partial_size, partials.data(), queries.data()};
  parallel_tasks(args.batch * tiles, workers, [&](std::int64_t item, int worker) {
    const std::int64_t b = item / tiles;
    const std::int64_t tile = item % tiles;
    const KeyRange all = cached_range(args, b);
    const KeyRange range{all.begin + tile * kKeyTile, smaller(all.begin + (tile + 1) * kKeyTile, all.end)};
    float* keys = memory.data() + worker * buffer_size;
    float* values = keys + kKeyTile * padded(args.head_dim);
    if (!range.empty()) decode_tile(plan, b, tile, range, {keys, values, values + kKeyTile * padded(args.value_dim)});
  });
  for (std::int64_t b = 0; b < args.batch; ++b) {
    const KeyRange all = cached_range(args, b);
    for (std::int64_t head = 0; head < args.heads; ++head) combine_tiles(plan, b, head, divide_up(all.end - all.begin, kKeyTile));
  }
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(decode_attention_kernel, DecodeAttention<float>)
TESSERA_KERNEL(decode_attention_kernel, DecodeAttention<bfloat16>)

}  // namespace tessera::ops::cpu
