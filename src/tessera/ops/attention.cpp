#include "tessera/ops/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <memory>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/attention.h"
#include "tessera/ops/cpu/dropout.h"
#include "tessera/ops/dropout_factors.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

/// Everything the kernel's shape points at, kept alive for backward.
struct KernelShape {
  cpu::AttentionShape shape;
  std::vector<std::int64_t> document_begin, document_end, lengths, samples;
};

/// Per token, the first position of its document and one past its last: what the kernel and the composite mask by.
void fill_documents(const AttentionOptions& options, std::int64_t batch, std::int64_t length, std::vector<std::int64_t>& begin,
                    std::vector<std::int64_t>& end) {
  begin.resize(static_cast<std::size_t>(batch * length));
  end.resize(begin.size());
  for (std::int64_t row = 0; row < batch; ++row) {
    const auto& starts = options.document_starts[static_cast<std::size_t>(row)];
    cpu::document_intervals(starts.data(), static_cast<std::int64_t>(starts.size()), length, options.query_start, begin.data() + row * length,
                            end.data() + row * length);
  }
}

std::shared_ptr<KernelShape> kernel_shape(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options,
                                          bool with_dropout) {
  auto made = std::make_shared<KernelShape>();
  cpu::AttentionShape& shape = made->shape;
  shape.batch = query.size(0);
  shape.query_length = query.size(1);
  shape.key_length = key.size(1);
  shape.heads = query.size(2);
  shape.key_heads = key.size(2);
  shape.head_dim = query.size(3);
  shape.value_dim = value.size(3);
  shape.scale = static_cast<float>(options.scale);
  shape.softcap = static_cast<float>(options.soft_cap.value_or(0.0));
  shape.window = options.sliding_window.value_or(0);
  shape.query_start = options.query_start;
  made->lengths = options.lengths;
  made->samples = options.sample_numbers;
  if (!options.document_starts.empty()) {
    fill_documents(options, shape.batch, shape.query_length, made->document_begin, made->document_end);
    shape.document_begin = made->document_begin.data();
    shape.document_end = made->document_end.data();
  }
  if (!made->lengths.empty()) shape.key_lengths = made->lengths.data();
  if (!made->lengths.empty() && options.query_start == 0) shape.query_lengths = made->lengths.data();
  if (with_dropout) {
    shape.dropout = static_cast<float>(options.dropout);
    shape.dropout_key = options.dropout_key;
    shape.samples = made->samples.empty() ? nullptr : made->samples.data();
  }
  return made;
}

cpu::HeadStrides strides_of(const at::Tensor& heads_BTHC) { return {heads_BTHC.stride(0), heads_BTHC.stride(1), heads_BTHC.stride(2)}; }

struct Result {
  at::Tensor output_BTHC;
  at::Tensor lse_BHT;
};

Result kernel_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const cpu::AttentionShape& shape) {
  Result result{at::empty({shape.batch, shape.query_length, shape.heads, shape.value_dim}, query.options()),
                at::empty({shape.batch, shape.heads, shape.query_length}, query.options().dtype(at::kFloat))};
  with_kernel_type(query, [&]<class T>(T) {
    cpu::attention_forward<T, T>({.shape = shape,
                                  .query = kernel_data<const T>(query),
                                  .query_strides = strides_of(query),
                                  .key = kernel_data<const T>(key),
                                  .key_strides = strides_of(key),
                                  .value = kernel_data<const T>(value),
                                  .value_strides = strides_of(value),
                                  .output = kernel_data<T>(result.output_BTHC),
                                  .output_strides = strides_of(result.output_BTHC),
                                  .lse = result.lse_BHT.data_ptr<float>()});
  });
  return result;
}

HeadGradients kernel_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Result& result,
                              const at::Tensor& output_gradient, const cpu::AttentionShape& shape) {
  HeadGradients gradients = adjacent_head_gradients(query, key, value);
  with_kernel_type(query, [&]<class T>(T) {
    cpu::attention_backward<T, T>({.shape = shape,
                                   .query = kernel_data<const T>(query),
                                   .query_strides = strides_of(query),
                                   .key = kernel_data<const T>(key),
                                   .key_strides = strides_of(key),
                                   .value = kernel_data<const T>(value),
                                   .value_strides = strides_of(value),
                                   .output = kernel_data<const T>(result.output_BTHC),
                                   .output_strides = strides_of(result.output_BTHC),
                                   .lse = result.lse_BHT.data_ptr<float>(),
                                   .output_gradient = kernel_data<const T>(output_gradient),
                                   .output_gradient_strides = strides_of(output_gradient),
                                   .query_gradient = kernel_data<T>(gradients.query),
                                   .query_gradient_strides = strides_of(gradients.query),
                                   .key_gradient = kernel_data<T>(gradients.key),
                                   .key_gradient_strides = strides_of(gradients.key),
                                   .value_gradient = kernel_data<T>(gradients.value),
                                   .value_gradient_strides = strides_of(gradients.value)});
  });
  return gradients;
}

/// True where a query must not look, [B, 1, T, S].
at::Tensor hidden_mask(const cpu::AttentionShape& shape, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const auto per_row = [&](const std::int64_t* data, at::IntArrayRef sizes) {
    return at::from_blob(const_cast<std::int64_t*>(data), sizes, at::kLong).clone().to(device);
  };
  const at::Tensor position = at::arange(shape.query_length, options).add(shape.query_start).view({1, 1, -1, 1});
  const at::Tensor other = at::arange(shape.key_length, options).view({1, 1, 1, -1});
  at::Tensor hidden = other.gt(position);
  if (shape.window > 0) hidden = hidden.logical_or((position - other).ge(shape.window));
  if (shape.document_begin != nullptr) hidden = hidden.logical_or(other.lt(per_row(shape.document_begin, {shape.batch, 1, shape.query_length, 1})));
  if (shape.key_lengths != nullptr) hidden = hidden.logical_or(other.ge(per_row(shape.key_lengths, {shape.batch, 1, 1, 1})));
  if (shape.query_lengths != nullptr) hidden = hidden.logical_or(position.ge(per_row(shape.query_lengths, {shape.batch, 1, 1, 1})));
  return hidden.expand({shape.batch, 1, shape.query_length, shape.key_length});
}

at::Tensor to_heads_first(const at::Tensor& heads_BTHC, at::ScalarType type) { return heads_BTHC.to(type).transpose(1, 2); }

/// [B, K, S, C] repeated to [B, H, S, C].
at::Tensor repeat_heads(const at::Tensor& tensor_BKSC, std::int64_t heads) { return tensor_BKSC.repeat_interleave(heads / tensor_BKSC.size(1), 1); }

/// [B, H, S, C] summed over the query heads that share a key head.
at::Tensor sum_heads(const at::Tensor& tensor_BHSC, std::int64_t key_heads) {
  return at::sum(tensor_BHSC.unflatten(1, {key_heads, tensor_BHSC.size(1) / key_heads}), {2});
}

/// Softmax probabilities [B, H, T, S], what dropout multiplies them by, and tanh of the capped logits (undefined without dropout or a cap).
struct Probabilities {
  at::Tensor weights, factors, tanh;

  at::Tensor kept() const { return factors.defined() ? weights * factors : weights; }
};

/// [B, H, T, S].
at::Tensor weight_factors(const cpu::AttentionShape& shape, double probability, const at::TensorOptions& options) {
  std::vector<std::uint64_t> keys;
  for (std::int64_t row = 0; row < shape.batch; ++row)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t token = 0; token < shape.query_length; ++token) {
        const std::int64_t sample = shape.samples != nullptr ? shape.samples[row] : row;
        keys.push_back(cpu::dropout_row_key(shape.dropout_key, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(head),
                                            static_cast<std::uint64_t>(shape.query_start + token)));
      }
  return dropout_factors(keys, shape.key_length, probability, options).view({shape.batch, shape.heads, shape.query_length, shape.key_length});
}

Probabilities probabilities(const at::Tensor& query_BHTC, const at::Tensor& key_BHSC, const cpu::AttentionShape& shape,
                            const AttentionOptions& options) {
  at::Tensor logits = at::matmul(query_BHTC, key_BHSC.transpose(2, 3)) * options.scale;
  at::Tensor tanh;
  if (options.soft_cap) {
    tanh = (logits / *options.soft_cap).tanh();
    logits = tanh * *options.soft_cap;
  }
  const at::Tensor hidden = hidden_mask(shape, logits.device());
  logits = logits.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  Probabilities result{logits.softmax(-1).nan_to_num(0.0).masked_fill(hidden, 0.0), at::Tensor(), tanh};
  if (shape.dropout > 0.0f) result.factors = weight_factors(shape, options.dropout, logits.options());
  return result;
}

at::Tensor composite_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const cpu::AttentionShape& shape,
                             const AttentionOptions& options) {
  const auto type = compute_type(query);
  const at::Tensor keys = repeat_heads(to_heads_first(key, type), shape.heads), values = repeat_heads(to_heads_first(value, type), shape.heads);
  const Probabilities p = probabilities(to_heads_first(query, type), keys, shape, options);
  return at::matmul(p.kept(), values).transpose(1, 2).contiguous().to(query.scalar_type());
}

HeadGradients composite_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& output_gradient,
                                 const cpu::AttentionShape& shape, const AttentionOptions& options) {
  const auto type = compute_type(query);
  const at::Tensor queries = to_heads_first(query, type), dout = to_heads_first(output_gradient, type);
  const at::Tensor keys = repeat_heads(to_heads_first(key, type), shape.heads), values = repeat_heads(to_heads_first(value, type), shape.heads);
  const Probabilities p = probabilities(queries, keys, shape, options);
  at::Tensor dweights = at::matmul(dout, values.transpose(2, 3));
  if (p.factors.defined()) dweights = dweights * p.factors;
  at::Tensor dlogits = p.weights * (dweights - at::sum(dweights * p.weights, {-1}, true));
  if (options.soft_cap) dlogits = dlogits * (1.0 - p.tanh * p.tanh);
  dlogits = dlogits * options.scale;
  const auto back = [&](const at::Tensor& heads_first) { return heads_first.transpose(1, 2).contiguous().to(query.scalar_type()); };
  return {back(at::matmul(dlogits, keys)), back(sum_heads(at::matmul(dlogits.transpose(2, 3), queries), shape.key_heads)),
          back(sum_heads(at::matmul(p.kept().transpose(2, 3), dout), shape.key_heads))};
}

}  // namespace

Variable attention(Tape& tape, const Variable& query_BTHC, const Variable& key_BSKC, const Variable& value_BSKC, const AttentionOptions& options) {
  const at::Tensor &query = query_BTHC.value, &key = key_BSKC.value, &value = value_BSKC.value;
  const bool kernel = has_cpu_kernel(query);
  const bool drops = tape.training() && options.dropout > 0.0;
  const std::shared_ptr<KernelShape> shape = kernel_shape(query, key, value, options, drops);
  const Result result =
      kernel ? kernel_forward(query, key, value, shape->shape) : Result{composite_forward(query, key, value, shape->shape, options), at::Tensor()};
  Variable output = tape.variable(result.output_BTHC.view({query.size(0) * query.size(1), -1}));
  tape.record([query, key, value, shape, result, options, kernel, query_slot = query_BTHC.gradient, key_slot = key_BSKC.gradient,
               value_slot = value_BSKC.gradient, out = output.gradient] {
    if (out->empty() || query_slot == nullptr) return;
    const at::Tensor output_gradient = out->take().view(result.output_BTHC.sizes());
    const HeadGradients gradients = kernel ? kernel_backward(query, key, value, result, output_gradient, shape->shape)
                                           : composite_backward(query, key, value, output_gradient, shape->shape, options);
    query_slot->add_owned(gradients.query);
    key_slot->add_owned(gradients.key);
    value_slot->add_owned(gradients.value);
  });
  return output;
}

at::Tensor decode_attention(const at::Tensor& query_B1HC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options) {
  const std::int64_t batch = query_B1HC.size(0), heads = query_B1HC.size(2), value_dim = value_BSKC.size(3);
  at::Tensor output = at::empty({batch, heads * value_dim}, query_B1HC.options());
  with_kernel_type(query_B1HC, [&]<class T>(T) {
    cpu::decode_attention<T>({.batch = batch,
                              .heads = heads,
                              .key_heads = key_BSKC.size(2),
                              .head_dim = query_B1HC.size(3),
                              .value_dim = value_dim,
                              .scale = static_cast<float>(options.scale),
                              .softcap = static_cast<float>(options.soft_cap.value_or(0.0)),
                              .window = options.sliding_window.value_or(0),
                              .lengths = lengths.data(),
                              .query = kernel_data<const T>(query_B1HC),
                              .query_strides = strides_of(query_B1HC),
                              .key = kernel_data<const T>(key_BSKC),
                              .key_strides = strides_of(key_BSKC),
                              .value = kernel_data<const T>(value_BSKC),
                              .value_strides = strides_of(value_BSKC),
                              .output = kernel_data<T>(output),
                              .output_strides = {heads * value_dim, 0, value_dim}});
  });
  return output;
}

}  // namespace tessera::ops
