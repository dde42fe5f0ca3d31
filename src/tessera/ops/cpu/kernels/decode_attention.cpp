#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/attention_tiles.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

constexpr std::int64_t kSpan = 256;  // keys per work item, so that one long row keeps all threads busy

/// What one span of keys contributes to one query head: [maximum, sum, output padded to vectors].
struct PartialResult {
  float* maximum;
  float* total;
  float* output;
};

template <class T>
struct DecodePlan {
  const DecodeAttention<T>& args;
  std::int64_t group;
  std::int64_t spans;  // of the longest row
  std::int64_t partial_size;
  float* partials;  // [batch, key_heads, spans, group] results

  PartialResult partial(std::int64_t b, std::int64_t key_head, std::int64_t span, std::int64_t g) const {
    float* start = partials + (((b * args.key_heads + key_head) * spans + span) * group + g) * partial_size;
    return {start, start + 1, start + kLanes};
  }
};

/// The visible entries of row b.
template <class T>
KeyRange cached_range(const DecodeAttention<T>& args, std::int64_t b) {
  const std::int64_t length = args.lengths[b];
  return {args.window > 0 ? larger(0, length - args.window) : 0, length};
}

/// logits[k] = q · key[k] over keys [0, count), soft-capped. The query comes scaled.
template <class T>
void decode_logits(const DecodeAttention<T>& args, const float* query, const T* keys, std::int64_t count, float* logits) {
  for (std::int64_t k = 0; k < count; ++k) {
    const T* key = keys + k * args.key_strides.token;
    Vec total = {};
    for_vectors(args.head_dim, [&](std::int64_t c, auto lanes) { total += load(query + c) * load(key + c, lanes); });
    logits[k] = sum(total);
  }
  if (args.softcap <= 0.0f) return;
  for_vectors(count, [&](std::int64_t k, auto lanes) { store(logits + k, args.softcap * tanh(load(logits + k, lanes) / args.softcap), lanes); });
}

template <class T>
void decode_span_of_head(const DecodeAttention<T>& args, std::int64_t b, std::int64_t key_head, std::int64_t head, KeyRange keys,
                         PartialResult result) {
  Scratch query(padded(args.head_dim));
  pack_rows(args.query + b * args.query_strides.batch + head * args.query_strides.head, 0, 1, args.head_dim, args.scale, query.data());
  float logits[kSpan];
  const std::int64_t count = keys.end - keys.begin;
  const T* first_key = args.key + b * args.key_strides.batch + key_head * args.key_strides.head + keys.begin * args.key_strides.token;
  const T* values = args.value + b * args.value_strides.batch + key_head * args.value_strides.head + keys.begin * args.value_strides.token;
  decode_logits(args, query.data(), first_key, count, logits);
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
  std::memset(result.output, 0, static_cast<std::size_t>(padded(args.value_dim)) * sizeof(float));
  for (std::int64_t k = 0; k < count; ++k) {
    const T* value = values + k * args.value_strides.token;
    for_vectors(args.value_dim,
                [&](std::int64_t c, auto lanes) { store(result.output + c, load(result.output + c) + load(value + c, lanes) * logits[k]); });
  }
}

/// Adds the spans of one head up in order.
template <class T>
void combine_spans(const DecodePlan<T>& plan, std::int64_t b, std::int64_t head, std::int64_t spans) {
  const DecodeAttention<T>& args = plan.args;
  const std::int64_t key_head = head / plan.group;
  float top = args.sinks != nullptr ? args.sinks[head] : -kInfinity;
  for (std::int64_t span = 0; span < spans; ++span) {
    const float maximum = *plan.partial(b, key_head, span, head % plan.group).maximum;
    top = maximum > top ? maximum : top;
  }
  const float shift = top == -kInfinity ? 0.0f : top;
  float total = args.sinks != nullptr ? std::exp(args.sinks[head] - shift) : 0.0f;
  const Scratch output(padded(args.value_dim));
  std::memset(output.data(), 0, static_cast<std::size_t>(padded(args.value_dim)) * sizeof(float));
  for (std::int64_t span = 0; span < spans; ++span) {
    const PartialResult part = plan.partial(b, key_head, span, head % plan.group);
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
void decode_attention_kernel(const DecodeAttention<T>& args) {
  if (args.batch <= 0 || args.heads <= 0) return;
  const std::int64_t group = args.heads / args.key_heads;
  std::int64_t most_keys = 0;
  for (std::int64_t b = 0; b < args.batch; ++b) most_keys = larger(most_keys, cached_range(args, b).end - cached_range(args, b).begin);
  const std::int64_t spans = divide_up(most_keys, kSpan);
  const std::int64_t partial_size = kLanes + padded(args.value_dim);
  const Scratch partials(args.batch * args.heads * spans * partial_size);
  const DecodePlan<T> plan{args, group, spans, partial_size, partials.data()};
  const std::int64_t items = args.batch * args.key_heads * spans;
  constexpr std::int64_t kWorthThreads = 16384;  // multiply-adds
  const bool small = args.batch * args.heads * most_keys * args.head_dim < kWorthThreads;
  parallel_tasks(items, small ? 1 : parallel_workers(items), [&](std::int64_t item, int) {
    const std::int64_t span = item % spans;
    const std::int64_t key_head = item / spans % args.key_heads;
    const std::int64_t b = item / spans / args.key_heads;
    const KeyRange all = cached_range(args, b);
    const KeyRange keys{all.begin + span * kSpan, smaller(all.begin + (span + 1) * kSpan, all.end)};
    if (keys.empty()) return;
    for (std::int64_t g = 0; g < group; ++g) decode_span_of_head(args, b, key_head, key_head * group + g, keys, plan.partial(b, key_head, span, g));
  });
  for (std::int64_t b = 0; b < args.batch; ++b) {
    const KeyRange all = cached_range(args, b);
    for (std::int64_t head = 0; head < args.heads; ++head) combine_spans(plan, b, head, divide_up(all.end - all.begin, kSpan));
  }
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(decode_attention_kernel, DecodeAttention<float>)
TESSERA_KERNEL(decode_attention_kernel, DecodeAttention<bfloat16>)

}  // namespace tessera::ops::cpu
