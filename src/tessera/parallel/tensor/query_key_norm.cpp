#include "tessera/parallel/tensor/query_key_norm.h"

#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>

#include "tessera/ops/kernel_types.h"

namespace tessera::parallel {
namespace {

/// A norm's vectors inside the fused projection.
struct Part {
  std::int64_t start, width;
  double whole_width;  ///< over all ranks
  double holders;      ///< of the same elements

  at::Tensor of(const at::Tensor& matrix) const { return matrix.narrow(1, start, width); }
};

at::Tensor row_sums(const at::Tensor& values) { return at::sum(values, {1}); }

/// This rank's sums added over all ranks, [2, N].
at::Tensor over_ranks(comm::Communicator& group, const at::Tensor& query_sums, const at::Tensor& key_sums) {
  at::Tensor sums = at::stack({query_sums, key_sums});
  group.all_reduce(sums).wait();
  return sums;
}

at::Tensor offset_weight(const ops::Parameter& weight, at::ScalarType type, double offset) { return weight.weight.to(type) + offset; }

/// Reciprocal root mean squares of queries and keys, [2, N].
at::Tensor reciprocals(comm::Communicator& group, const at::Tensor& input, const Part& query, const Part& key, double epsilon) {
  const auto type = ops::compute_type(input);
  const at::Tensor q = query.of(input).to(type), k = key.of(input).to(type);
  const at::Tensor squares = over_ranks(group, row_sums(q * q), row_sums(k * k) / key.holders);
  return at::stack({at::rsqrt(squares[0] / query.whole_width + epsilon), at::rsqrt(squares[1] / key.whole_width + epsilon)});
}

}  // namespace

ops::Variable split_query_key_norm(comm::Communicator& group, const SplitNormWidths& widths, ops::Tape& tape, const ops::Variable& query_key_value,
                                   ops::Parameter& query_weight, ops::Parameter& key_weight, const ops::QueryKeyNormOptions& options) {
  const std::int64_t queries = options.num_heads * options.head_dim, keys = options.num_key_value_heads * options.head_dim;
  const Part query{0, queries, static_cast<double>(widths.query), 1.0};
  const Part key{queries, keys, static_cast<double>(widths.key), static_cast<double>(widths.key_holders)};
  const at::Tensor& input = query_key_value.value;
  const auto type = ops::compute_type(input);
  const double offset = options.norm.weight_offset;
  const at::Tensor rstd = reciprocals(group, input, query, key, options.norm.epsilon);
  at::Tensor result = input.clone();
  const auto normal = [type](const Part& part, const at::Tensor& matrix, const at::Tensor& rstd_N) {
    return part.of(matrix).to(type) * rstd_N.unsqueeze(1);
  };
  query.of(result).copy_(normal(query, input, rstd[0]) * offset_weight(query_weight, type, offset));
  key.of(result).copy_(normal(key, input, rstd[1]) * offset_weight(key_weight, type, offset));
  ops::Variable output = tape.variable(result);
  tape.record(
      [&group, &query_weight, &key_weight, input, type, offset, query, key, rstd, normal, slot = query_key_value.gradient, out = output.gradient] {
        if (out->empty()) return;
        at::Tensor gradient = out->take_owned();
        const at::Tensor query_normal = normal(query, input, rstd[0]), key_normal = normal(key, input, rstd[1]);
        const at::Tensor query_dy = query.of(gradient).to(type), key_dy = key.of(gradient).to(type);
        const at::Tensor query_scaled = query_dy * offset_weight(query_weight, type, offset),
                         key_scaled = key_dy * offset_weight(key_weight, type, offset);
        const at::Tensor sums = over_ranks(group, row_sums(query_scaled * query_normal), row_sums(key_scaled * key_normal));
        if (query_weight.trainable) ops::accumulate_gradient(query_weight, at::sum(query_dy * query_normal, {0}));
        if (key_weight.trainable) ops::accumulate_gradient(key_weight, at::sum(key_dy * key_normal, {0}));
        const auto input_gradient = [&](const Part& part, const at::Tensor& scaled, const at::Tensor& normal_NW, std::int64_t which) {
          // Holders of one head share its gradient: each subtracts its part of the mean.
          const at::Tensor mean = (sums[which] / (part.whole_width * part.holders)).unsqueeze(1);
          part.of(gradient).copy_((scaled - normal_NW * mean) * rstd[which].unsqueeze(1));
        };
        input_gradient(query, query_scaled, query_normal, 0);
        input_gradient(key, key_scaled, key_normal, 1);
        slot->add_owned(gradient);
      });
  return output;
}

}  // namespace tessera::parallel
