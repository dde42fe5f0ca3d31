#include "tessera/ops/heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include "tessera/ops/cpu/rope.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

void rotate_composite(at::Tensor& matrix, const RopeTable& table, std::int64_t heads, std::int64_t head_dim, bool inverse) {
  const std::int64_t half = table.cosines_NR.size(1);
  at::Tensor region = matrix.narrow(1, 0, heads * head_dim).unflatten(1, {heads, head_dim});
  const auto type = compute_type(matrix);
  const at::Tensor a = region.narrow(2, 0, half).to(type), b = region.narrow(2, half, half).to(type);
  const at::Tensor cosines = table.cosines_NR.unsqueeze(1).to(type);
  const at::Tensor sines = (inverse ? table.sines_NR.neg() : table.sines_NR).unsqueeze(1).to(type);
  const at::Tensor first = a * cosines - b * sines, second = b * cosines + a * sines;
  region.narrow(2, 0, half).copy_(first);
  region.narrow(2, half, half).copy_(second);
}

void rotate(at::Tensor& matrix, const RopeTable& table, std::int64_t heads, std::int64_t head_dim, bool inverse) {
  if (!has_cpu_kernel(matrix)) {
    rotate_composite(matrix, table, heads, head_dim, inverse);
    return;
  }
  with_kernel_type(matrix, [&]<class T>(T) {
    cpu::rope<T>({.tokens = matrix.size(0),
                  .heads = heads,
                  .head_dim = head_dim,
                  .rotary_dim = 2 * table.cosines_NR.size(1),
                  .inverse = inverse,
                  .cosines = table.cosines_NR.data_ptr<float>(),
                  .sines = table.sines_NR.data_ptr<float>(),
                  .input = kernel_data<const T>(matrix),
                  .input_token_stride = matrix.stride(0),
                  .input_head_stride = head_dim,
                  .output = kernel_data<T>(matrix),
                  .output_token_stride = matrix.stride(0),
                  .output_head_stride = head_dim});
  });
}

at::Tensor heads_view(const at::Tensor& matrix, std::int64_t batch, std::int64_t first_head, std::int64_t heads, std::int64_t head_dim) {
  return matrix.narrow(1, first_head * head_dim, heads * head_dim).view({batch, matrix.size(0) / batch, heads, head_dim});
}

at::Tensor flat(const at::Tensor& heads_BTHC) { return heads_BTHC.reshape({heads_BTHC.size(0) * heads_BTHC.size(1), -1}); }

/// Whether `b` starts where a row of `a` ends, in the same buffer and with the same rows.
bool follows(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) && a.strides() == b.strides() && b.storage_offset() == a.storage_offset() + a.size(2) * a.size(3);
}

at::Tensor join(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t rows = query.size(0) * query.size(1);
  const std::int64_t width = (query.size(2) + 2 * key.size(2)) * query.size(3);
  if (follows(query, key) && follows(key, value) && query.stride(1) == width) return query.as_strided({rows, width}, {width, 1});
  return at::cat({flat(query), flat(key), flat(value)}, 1);
}

}  // namespace

Variable rotate_in_place(Tape& tape, const Variable& query_key_value, const RopeTable& table, std::int64_t num_rotated_heads, std::int64_t head_dim) {
  at::Tensor value = query_key_value.value;
  rotate(value, table, num_rotated_heads, head_dim, false);
  Variable output = tape.variable(value);
  tape.record([table, num_rotated_heads, head_dim, slot = query_key_value.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    at::Tensor gradient = out->take_owned();
    rotate(gradient, table, num_rotated_heads, head_dim, true);
    slot->add_owned(gradient);
  });
  return output;
}

HeadViews split_heads(Tape& tape, const Variable& query_key_value, std::int64_t batch, std::int64_t num_heads, std::int64_t num_key_value_heads,
                      std::int64_t head_dim) {
  const at::Tensor& matrix = query_key_value.value;
  HeadViews views{tape.variable(heads_view(matrix, batch, 0, num_heads, head_dim)),
                  tape.variable(heads_view(matrix, batch, num_heads, num_key_value_heads, head_dim)),
                  tape.variable(heads_view(matrix, batch, num_heads + num_key_value_heads, num_key_value_heads, head_dim))};
  tape.record([slot = query_key_value.gradient, query = views.query_BTHC.gradient, key = views.key_BTKC.gradient, value = views.value_BTKC.gradient] {
    if (slot == nullptr || query->empty()) return;
    const at::Tensor query_gradient = query->take(), key_gradient = key->take(), value_gradient = value->take();
    slot->add_owned(join(query_gradient, key_gradient, value_gradient));
  });
  return views;
}

HeadGradients adjacent_head_gradients(const at::Tensor& query_BTHC, const at::Tensor& key_BTKC, const at::Tensor& value_BTKC) {
  const std::int64_t heads = query_BTHC.size(2), key_heads = key_BTKC.size(2), head_dim = query_BTHC.size(3);
  const bool alike = value_BTKC.size(3) == head_dim && key_BTKC.size(1) == query_BTHC.size(1);
  if (!alike) return {at::zeros_like(query_BTHC), at::zeros_like(key_BTKC), at::zeros_like(value_BTKC)};
  const at::Tensor buffer = at::empty({query_BTHC.size(0), query_BTHC.size(1), heads + 2 * key_heads, head_dim}, query_BTHC.options());
  return {buffer.narrow(2, 0, heads), buffer.narrow(2, heads, key_heads), buffer.narrow(2, heads + key_heads, key_heads)};
}

}  // namespace tessera::ops
