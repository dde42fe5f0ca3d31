#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops_cpu/kernel_support.h"
#include "tessera/ops/cpu/attention.h"
#include "tessera/ops/cpu/dropout.h"

/// What the tests of the attention kernels share: random problems, a plain fp64 reference of value and gradients, and one run of the kernels.
namespace tessera::ops::cpu::test {

/// Dense [B, T, H, C] tensors and their fp64 reference.
struct Problem {
  AttentionShape shape;
  std::vector<double> query, key, value, output_gradient;
  std::vector<std::int64_t> document_begin, query_lengths, key_lengths, samples;
  std::vector<float> sinks;
};

struct Reference {
  std::vector<double> output, lse, query_gradient, key_gradient, value_gradient, sink_gradient;
};

inline HeadStrides dense(std::int64_t tokens, std::int64_t heads, std::int64_t width) { return {tokens * heads * width, heads * width, width}; }

inline bool visible(const AttentionShape& s, std::int64_t b, std::int64_t t, std::int64_t k) {
  const std::int64_t p = s.query_start + t;
  const std::int64_t j = s.key_start + k;
  if (j > p || (s.window > 0 && p - j >= s.window)) return false;
  if (s.document_begin != nullptr && j < s.document_begin[b * s.query_length + t]) return false;
  if (s.query_lengths != nullptr && t >= s.query_lengths[b]) return false;
  return s.key_lengths == nullptr || k < s.key_lengths[b];
}

inline double keep_factor(const AttentionShape& s, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t k) {
  if (s.dropout == 0.0f) return 1.0;
  const auto sample = static_cast<std::uint64_t>(s.samples != nullptr ? s.samples[b] : b);
  const std::uint64_t row =
      dropout_row_key(s.dropout_key, sample, static_cast<std::uint64_t>(s.head_start + h), static_cast<std::uint64_t>(s.query_start + t));
  const bool kept = dropout_word(row, static_cast<std::uint32_t>(s.key_start + k)) >= dropout_threshold(s.dropout);
  return kept ? 1.0 / (1.0 - static_cast<double>(s.dropout)) : 0.0;
}

/// One query row: probabilities, logits and lse.
struct Row {
  std::vector<double> logits, probabilities;
  double lse;
};

inline Row softmax_row(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t t) {
  const AttentionShape& s = p.shape;
  Row row;
  double top = s.sinks != nullptr ? s.sinks[h] : -kInfinity;
  for (std::int64_t k = 0; k < s.key_length; ++k) {
    double z = 0.0;
    for (std::int64_t c = 0; c < s.head_dim; ++c) {
      z += p.query[((b * s.query_length + t) * s.heads + h) * s.head_dim + c] *
           p.key[((b * s.key_length + k) * s.key_heads + h / (s.heads / s.key_heads)) * s.head_dim + c];
    }
    z *= s.scale;
    if (s.softcap > 0.0f) z = s.softcap * std::tanh(z / s.softcap);
    row.logits.push_back(visible(s, b, t, k) ? z : -kInfinity);
    top = std::max(top, row.logits.back());
  }
  double total = s.sinks != nullptr ? std::exp(s.sinks[h] - top) : 0.0;
  for (double z : row.logits) total += z == -kInfinity ? 0.0 : std::exp(z - top);
  row.lse = total == 0.0 ? -kInfinity : top + std::log(total);
  for (double z : row.logits) row.probabilities.push_back(z == -kInfinity ? 0.0 : std::exp(z - row.lse));
  return row;
}

inline Reference reference_of(const Problem& p) {
  const AttentionShape& s = p.shape;
  Reference r;
  r.output.resize(static_cast<std::size_t>(s.batch * s.query_length * s.heads * s.value_dim));
  r.lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.query_length));
  r.query_gradient.resize(p.query.size());
  r.key_gradient.resize(p.key.size());
  r.value_gradient.resize(p.value.size());
  r.sink_gradient.resize(static_cast<std::size_t>(s.heads));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.query_length; ++t) {
        const std::int64_t kh = h / (s.heads / s.key_heads);
        const Row row = softmax_row(p, b, h, t);
        const std::int64_t out = ((b * s.query_length + t) * s.heads + h) * s.value_dim;
        const std::int64_t q = ((b * s.query_length + t) * s.heads + h) * s.head_dim;
        r.lse[(b * s.heads + h) * s.query_length + t] = row.lse;
        std::vector<double> dp(static_cast<std::size_t>(s.key_length));
        double delta = 0.0;
        for (std::int64_t k = 0; k < s.key_length; ++k) {
          if (row.logits[k] == -kInfinity) continue;
          const std::int64_t v = ((b * s.key_length + k) * s.key_heads + kh) * s.value_dim;
          const double keep = keep_factor(s, b, h, t, k);
          for (std::int64_t c = 0; c < s.value_dim; ++c) {
            r.output[out + c] += row.probabilities[k] * keep * p.value[v + c];
            dp[k] += keep * p.output_gradient[out + c] * p.value[v + c];
            r.value_gradient[v + c] += row.probabilities[k] * keep * p.output_gradient[out + c];
          }
          delta += row.probabilities[k] * dp[k];
        }
        if (s.sinks != nullptr) r.sink_gradient[h] -= std::exp(s.sinks[h] - row.lse) * delta;
        for (std::int64_t k = 0; k < s.key_length; ++k) {
          if (row.logits[k] == -kInfinity) continue;
          double dz = row.probabilities[k] * (dp[k] - delta) * s.scale;
          if (s.softcap > 0.0f) dz *= 1.0 - std::pow(row.logits[k] / s.softcap, 2);
          const std::int64_t key = ((b * s.key_length + k) * s.key_heads + kh) * s.head_dim;
          for (std::int64_t c = 0; c < s.head_dim; ++c) {
            r.query_gradient[q + c] += dz * p.key[key + c];
            r.key_gradient[key + c] += dz * p.query[q + c];
          }
        }
      }
    }
  }
  return r;
}

/// Random tensors, rounded to T so that the reference starts from what the kernel sees.
template <class T>
void fill(Problem& p, int seed) {
  const AttentionShape& s = p.shape;
  const auto random = [&](std::int64_t size, int offset) { return random_array<T>(size, seed + offset).values(); };
  p.query = random(s.batch * s.query_length * s.heads * s.head_dim, 1);
  p.key = random(s.batch * s.key_length * s.key_heads * s.head_dim, 2);
  p.value = random(s.batch * s.key_length * s.key_heads * s.value_dim, 3);
  p.output_gradient = random(s.batch * s.query_length * s.heads * s.value_dim, 4);
}

inline AttentionShape shape_of(std::int64_t batch, std::int64_t tokens, std::int64_t keys, std::int64_t heads, std::int64_t key_heads,
                               std::int64_t head_dim, std::int64_t value_dim) {
  AttentionShape s;
  s.batch = batch;
  s.query_length = tokens;
  s.key_length = keys;
  s.heads = heads;
  s.key_heads = key_heads;
  s.head_dim = head_dim;
  s.value_dim = value_dim;
  s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return s;
}

template <class T, class O = T>
struct Computed {
  Array<O> output;
  Array<float> lse;
  Array<O> query_gradient, key_gradient, value_gradient;
  Array<float> sink_gradient;
};

template <class T, class O = T>
Computed<T, O> compute(const Problem& p, const Reference& r, Isa isa) {
  const AttentionShape& s = p.shape;
  Computed<T, O> c{
      Array<O>(static_cast<std::int64_t>(r.output.size()), kNan),         Array<float>(static_cast<std::int64_t>(r.lse.size()), kNan),
      Array<O>(static_cast<std::int64_t>(r.query_gradient.size()), kNan), Array<O>(static_cast<std::int64_t>(r.key_gradient.size()), kNan),
      Array<O>(static_cast<std::int64_t>(r.value_gradient.size()), kNan), Array<float>(s.heads)};
  const Array<T> query(p.query), key(p.key), value(p.value), dout(p.output_gradient);
  const HeadStrides q = dense(s.query_length, s.heads, s.head_dim), k = dense(s.key_length, s.key_heads, s.head_dim),
                    v = dense(s.key_length, s.key_heads, s.value_dim), o = dense(s.query_length, s.heads, s.value_dim);
  attention_forward(AttentionForward<T, O>{s, query.data(), q, key.data(), k, value.data(), v, c.output.data(), o, c.lse.data()}, isa);
  const Array<T> output(c.output.values());
  AttentionBackward<T, O> backward{s, query.data(), q, key.data(), k, value.data(), v, output.data(), o, c.lse.data(), dout.data(), o};
  backward.query_gradient = c.query_gradient.data();
  backward.query_gradient_strides = q;
  backward.key_gradient = c.key_gradient.data();
  backward.key_gradient_strides = k;
  backward.value_gradient = c.value_gradient.data();
  backward.value_gradient_strides = v;
  backward.sink_gradient = c.sink_gradient.data();
  attention_backward(backward, isa);
  return c;
}

template <class T, class O = T>
void check(const Problem& p) {
  const Reference r = reference_of(p);
  // bf16: the backward pass starts from an output rounded to bf16, which moves delta.
  const double forward_tolerance = 3e-6;
  const double backward_tolerance = std::is_same_v<T, float> ? 5e-6 : 8e-3;
  on_each_isa([&](Isa isa) {
    const auto c = compute<T, O>(p, r, isa);
    expect_close(c.output, r.output, forward_tolerance, "output");
    expect_close(c.lse, r.lse, forward_tolerance, "lse");
    expect_close(c.query_gradient, r.query_gradient, backward_tolerance, "query gradient");
    expect_close(c.key_gradient, r.key_gradient, backward_tolerance, "key gradient");
    expect_close(c.value_gradient, r.value_gradient, backward_tolerance, "value gradient");
    if (p.shape.sinks != nullptr) expect_close(c.sink_gradient, r.sink_gradient, backward_tolerance, "sink gradient");
  });
}

}  // namespace tessera::ops::cpu::test
