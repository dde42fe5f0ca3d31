#include "tessera/ops/latent_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

struct Halves {
  at::Tensor first, second;
};

Halves halves(const at::Tensor& values, bool interleaved) {
  if (interleaved) {
    const at::Tensor pairs = values.unflatten(-1, {-1, 2});
    return {pairs.select(-1, 0), pairs.select(-1, 1)};
  }
  const std::int64_t half = values.size(-1) / 2;
  return {values.narrow(-1, 0, half), values.narrow(-1, half, half)};
}

/// values [N, heads, rope] turned, in half-split order; in the type of the table.
at::Tensor rotated(const at::Tensor& values, const RopeTable& table, bool interleaved) {
  const at::Tensor cosines = table.cosines_NR.unsqueeze(1), sines = table.sines_NR.unsqueeze(1);
  const auto [a, b] = halves(values.to(cosines.scalar_type()), interleaved);
  return at::cat({a * cosines - b * sines, b * cosines + a * sines}, -1);
}

/// The inverse of it, which is its transpose too.
at::Tensor turned_back(const at::Tensor& values, const RopeTable& table, bool interleaved) {
  const at::Tensor cosines = table.cosines_NR.unsqueeze(1), sines = table.sines_NR.unsqueeze(1);
  const auto [first, second] = halves(values.to(cosines.scalar_type()), false);
  const at::Tensor a = first * cosines + second * sines, b = second * cosines - first * sines;
  return interleaved ? at::stack({a, b}, -1).flatten(-2) : at::cat({a, b}, -1);
}

/// [N, H, nope + rope] made of the unrotated parts and the rotated ones (of every head, or one for all).
at::Tensor joined(const at::Tensor& unrotated, const at::Tensor& rotated_part, const LatentHeadsOptions& options) {
  at::Tensor heads = at::empty({unrotated.size(0), options.num_heads, options.nope_head_dim + options.rope_head_dim}, unrotated.options());
  heads.narrow(2, 0, options.nope_head_dim).copy_(unrotated);
  heads.narrow(2, options.nope_head_dim, options.rope_head_dim).copy_(rotated_part);
  return heads;
}

at::Tensor query_heads(const at::Tensor& query, const RopeTable& table, const LatentHeadsOptions& options) {
  const at::Tensor heads = query.unflatten(1, {options.num_heads, -1});
  return joined(heads.narrow(2, 0, options.nope_head_dim),
                rotated(heads.narrow(2, options.nope_head_dim, options.rope_head_dim), table, options.interleaved), options);
}

at::Tensor query_backward(const at::Tensor& gradient_NHC, const RopeTable& table, const LatentHeadsOptions& options) {
  return joined(gradient_NHC.narrow(2, 0, options.nope_head_dim),
                turned_back(gradient_NHC.narrow(2, options.nope_head_dim, options.rope_head_dim), table, options.interleaved), options)
      .flatten(1);
}

}  // namespace

HeadViews latent_heads(Tape& tape, const Variable& query, const Variable& key_value, const Variable& rotary_key, const RopeTable& table,
                       const LatentHeadsOptions& options) {
  const auto by_rows = [&](const at::Tensor& heads_NHC) { return heads_NHC.unflatten(0, {options.batch, -1}); };
  const at::Tensor unrotated_and_values = key_value.value.unflatten(1, {options.num_heads, -1});
  const at::Tensor shared_key = rotated(rotary_key.value.unsqueeze(1), table, options.interleaved);
  HeadViews views{tape.variable(by_rows(query_heads(query.value, table, options))),
                  tape.variable(by_rows(joined(unrotated_and_values.narrow(2, 0, options.nope_head_dim), shared_key, options))),
                  tape.variable(by_rows(unrotated_and_values.narrow(2, options.nope_head_dim, options.value_head_dim)))};
  tape.record([table, options, query_slot = query.gradient, key_value_slot = key_value.gradient, rotary_slot = rotary_key.gradient,
               query_out = views.query_BTHC.gradient, key_out = views.key_BTKC.gradient, value_out = views.value_BTKC.gradient] {
    if (query_out->empty() || query_slot == nullptr) return;
    query_slot->add_owned(query_backward(query_out->take().flatten(0, 1), table, options));
    const at::Tensor key = key_out->take().flatten(0, 1), value = value_out->take().flatten(0, 1);
    key_value_slot->add_owned(at::cat({key.narrow(2, 0, options.nope_head_dim), value}, 2).flatten(1));
    const at::Tensor shared = at::sum(key.narrow(2, options.nope_head_dim, options.rope_head_dim), {1}, true, compute_type(key));
    rotary_slot->add_owned(turned_back(shared, table, options.interleaved).squeeze(1).to(key.scalar_type()));
  });
  return views;
}

ColumnParts split_columns(Tape& tape, const Variable& input_NI, std::int64_t width) {
  const std::int64_t rest = input_NI.value.size(1) - width;
  ColumnParts parts{tape.variable(input_NI.value.narrow(1, 0, width).contiguous()),
                    tape.variable(input_NI.value.narrow(1, width, rest).contiguous())};
  tape.record([shape = input_NI.value.sizes().vec(), width, rest, options = input_NI.value.options(), slot = input_NI.gradient,
               first = parts.first.gradient, second = parts.second.gradient] {
    if (slot == nullptr || (first->empty() && second->empty())) return;
    at::Tensor gradient = at::empty(shape, options);
    const auto fill = [&](GradientSlot& part, std::int64_t begin, std::int64_t columns) {
      part.empty() ? gradient.narrow(1, begin, columns).zero_() : gradient.narrow(1, begin, columns).copy_(part.take());
    };
    fill(*first, 0, width);
    fill(*second, width, rest);
    slot->add_owned(gradient);
  });
  return parts;
}

}  // namespace tessera::ops
