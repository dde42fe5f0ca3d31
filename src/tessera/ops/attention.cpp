#include "tessera/ops/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
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
  std::vector<std::int64_t> document_begin, query_lengths, key_lengths, samples;
};

/// Per token, the first position of its document: what the kernel and the composite mask by.
std::vector<std::int64_t> first_of_documents(const AttentionOptions& options, std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(batch * length));
  for (std::int64_t row = 0; row < batch; ++row) {
    const auto& starts = options.document_starts[static_cast<std::size_t>(row)];
    cpu::document_begins(starts.data(), static_cast<std::int64_t>(starts.size()), length, options.query_start, begin.data() + row * length);
  }
  return begin;
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
  shape.key_start = options.key_start;
  shape.head_start = options.first_head;
  for (const std::int64_t length : options.lengths) {
    made->query_lengths.push_back(std::clamp<std::int64_t>(length - options.query_start, 0, shape.query_length));
    made->key_lengths.push_back(std::clamp<std::int64_t>(length - options.key_start, 0, shape.key_length));
  }
  made->samples = options.sample_numbers;
  if (!options.document_starts.empty()) {
    made->document_begin = first_of_documents(options, shape.batch, shape.query_length);
    shape.document_begin = made->document_begin.data();
  }
  if (!options.lengths.empty()) {
    shape.query_lengths = made->query_lengths.data();
    shape.key_lengths = made->key_lengths.data();
  }
  if (with_dropout) {
    shape.dropout = static_cast<float>(options.dropout);
    shape.dropout_key = options.dropout_key;
    shape.samples = made->samples.empty() ? nullptr : made->samples.data();
  }
  return made;
}

cpu::HeadStrides strides_of(const at::Tensor& heads_BTHC) { return {heads_BTHC.stride(0), heads_BTHC.stride(1), heads_BTHC.stride(2)}; }

/// Calls body(T, O): the type of the operands, and that of results which several calls add up.
template <class Body>
void with_kernel_types(const at::Tensor& tensor, bool single_results, const Body& body) {
  with_kernel_type(tensor, [&]<class T>(T value) { single_results ? body(value, 0.0f) : body(value, value); });
}

at::TensorOptions result_options(const at::Tensor& tensor, bool single_results) {
  return single_results ? tensor.options().dtype(compute_type(tensor)) : tensor.options();
}

AttentionResult kernel_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const cpu::AttentionShape& shape,
                               bool single_output) {
  AttentionResult result{at::empty({shape.batch, shape.query_length, shape.heads, shape.value_dim}, result_options(query, single_output)),
                         at::empty({shape.batch, shape.heads, shape.query_length}, query.options().dtype(at::kFloat))};
  with_kernel_types(query, single_output, [&]<class T, class O>(T, O) {
    cpu::attention_forward<T, O>({.shape = shape,
                                  .query = kernel_data<const T>(query),
                                  .query_strides = strides_of(query),
                                  .key = kernel_data<const T>(key),
                                  .key_strides = strides_of(key),
                                  .value = kernel_data<const T>(value),
                                  .value_strides = strides_of(value),
                                  .output = kernel_data<O>(result.output_BTHC),
                                  .output_strides = strides_of(result.output_BTHC),
                                  .lse = result.lse_BHT.data_ptr<float>()});
  });
  return result;
}

HeadGradients kernel_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionResult& result,
                              const at::Tensor& output_gradient, const cpu::AttentionShape& shape, bool single_gradients) {
  const auto options = result_options(query, single_gradients);
  HeadGradients gradients = single_gradients
                                ? HeadGradients{at::empty(query.sizes(), options), at::empty(key.sizes(), options), at::empty(value.sizes(), options)}
                                : adjacent_head_gradients(query, key, value);
  with_kernel_types(query, single_gradients, [&]<class T, class G>(T, G) {
    cpu::attention_backward<T, G>({.shape = shape,
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
                                   .query_gradient = kernel_data<G>(gradients.query),
                                   .query_gradient_strides = strides_of(gradients.query),
                                   .key_gradient = kernel_data<G>(gradients.key),
                                   .key_gradient_strides = strides_of(gradients.key),
                                   .value_gradient = kernel_data<G>(gradients.value),
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
  const at::Tensor other = at::arange(shape.key_length, options).add(shape.key_start).view({1, 1, 1, -1});
  at::Tensor hidden = other.gt(position);
  if (shape.window > 0) hidden = hidden.logical_or((position - other).ge(shape.window));
  if (shape.document_begin != nullptr) hidden = hidden.logical_or(other.lt(per_row(shape.document_begin, {shape.batch, 1, shape.query_length, 1})));
  if (shape.key_lengths != nullptr) hidden = hidden.logical_or(other.sub(shape.key_start).ge(per_row(shape.key_lengths, {shape.batch, 1, 1, 1})));
  if (shape.query_lengths != nullptr)
    hidden = hidden.logical_or(position.sub(shape.query_start).ge(per_row(shape.query_lengths, {shape.batch, 1, 1, 1})));
  return hidden.expand({shape.batch, 1, shape.query_length, shape.key_length});
}

at::Tensor to_heads_first(const at::Tensor& heads_BTHC, at::ScalarType type) { return heads_BTHC.to(type).transpose(1, 2); }

/// [B, K, S, C] repeated to [B, H, S, C].
at::Tensor repeat_heads(const at::Tensor& tensor_BKSC, std::int64_t heads) { return tensor_BKSC.repeat_interleave(heads / tensor_BKSC.size(1), 1); }

/// [B, H, S, C] summed over the query heads that share a key head.
at::Tensor sum_heads(const at::Tensor& tensor_BHSC, std::int64_t key_heads) {
  return at::sum(tensor_BHSC.unflatten(1, {key_heads, tensor_BHSC.size(1) / key_heads}), {2});
}

/// Masked logits [B, H, T, S], what dropout multiplies their softmax by, and tanh of the capped logits (undefined without dropout or a cap).
struct Logits {
  at::Tensor values, factors, tanh;

  /// Softmax weights under this log-sum-exp, before dropout.
  at::Tensor weights(const at::Tensor& lse_BHT) const {
    const at::Tensor weights = (values - lse_BHT.unsqueeze(-1)).exp();
    return weights.masked_fill(values.eq(-std::numeric_limits<double>::infinity()), 0.0);
  }
  at::Tensor kept(const at::Tensor& weights) const { return factors.defined() ? weights * factors : weights; }
};

/// [B, H, T, S].
at::Tensor weight_factors(const cpu::AttentionShape& shape, double probability, const at::TensorOptions& options) {
  std::vector<std::uint64_t> keys;
  for (std::int64_t row = 0; row < shape.batch; ++row)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t token = 0; token < shape.query_length; ++token) {
        const std::int64_t sample = shape.samples != nullptr ? shape.samples[row] : row;
        keys.push_back(cpu::dropout_row_key(shape.dropout_key, static_cast<std::uint64_t>(sample),
                                            static_cast<std::uint64_t>(shape.head_start + head),
                                            static_cast<std::uint64_t>(shape.query_start + token)));
      }
  return dropout_factors(keys, shape.key_length, probability, options, shape.key_start)
      .view({shape.batch, shape.heads, shape.query_length, shape.key_length});
}

Logits masked_logits(const at::Tensor& query_BHTC, const at::Tensor& key_BHSC, const cpu::AttentionShape& shape, const AttentionOptions& options) {
  at::Tensor logits = at::matmul(query_BHTC, key_BHSC.transpose(2, 3)) * options.scale;
  at::Tensor tanh;
  if (options.soft_cap) {
    tanh = (logits / *options.soft_cap).tanh();
    logits = tanh * *options.soft_cap;
  }
  Logits result{logits.masked_fill(hidden_mask(shape, logits.device()), -std::numeric_limits<double>::infinity()), at::Tensor(), tanh};
  if (shape.dropout > 0.0f) result.factors = weight_factors(shape, options.dropout, logits.options());
  return result;
}

AttentionResult composite_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const cpu::AttentionShape& shape,
                                  const AttentionOptions& options, bool single_output) {
  const auto type = compute_type(query);
  const at::Tensor keys = repeat_heads(to_heads_first(key, type), shape.heads), values = repeat_heads(to_heads_first(value, type), shape.heads);
  const Logits logits = masked_logits(to_heads_first(query, type), keys, shape, options);
  const at::Tensor lse = at::logsumexp(logits.values, {-1});
  const at::Tensor output = at::matmul(logits.kept(logits.weights(lse)), values).transpose(1, 2).contiguous();
  return {single_output ? output : output.to(query.scalar_type()), lse};
}

HeadGradients composite_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionResult& result,
                                 const at::Tensor& output_gradient, const cpu::AttentionShape& shape, const AttentionOptions& options,
                                 bool single_gradients) {
  const auto type = compute_type(query);
  const at::Tensor queries = to_heads_first(query, type), dout = to_heads_first(output_gradient, type);
  const at::Tensor keys = repeat_heads(to_heads_first(key, type), shape.heads), values = repeat_heads(to_heads_first(value, type), shape.heads);
  const Logits logits = masked_logits(queries, keys, shape, options);
  const at::Tensor weights = logits.weights(result.lse_BHT);
  const at::Tensor dweights = logits.kept(at::matmul(dout, values.transpose(2, 3)));
  at::Tensor dlogits = weights * (dweights - at::sum(dout * to_heads_first(result.output_BTHC, type), {-1}, true));
  if (options.soft_cap) dlogits = dlogits * (1.0 - logits.tanh * logits.tanh);
  dlogits = dlogits * options.scale;
  const auto back = [&](const at::Tensor& heads_first) {
    const at::Tensor gradient = heads_first.transpose(1, 2).contiguous();
    return single_gradients ? gradient : gradient.to(query.scalar_type());
  };
  return {back(at::matmul(dlogits, keys)), back(sum_heads(at::matmul(dlogits.transpose(2, 3), queries), shape.key_heads)),
          back(sum_heads(at::matmul(logits.kept(weights).transpose(2, 3), dout), shape.key_heads))};
}

at::Tensor sinks_of_heads(const AttentionOptions& options, std::int64_t heads) { return options.sinks->weight.narrow(0, options.first_sink, heads); }

}  // namespace

AttentionResult attention_forward(const at::Tensor& query_BTHC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                                  const AttentionOptions& options, bool drops, bool single_output) {
  const std::shared_ptr<KernelShape> made = kernel_shape(query_BTHC, key_BSKC, value_BSKC, options, drops && options.dropout > 0.0);
  if (has_cpu_kernel(query_BTHC)) return kernel_forward(query_BTHC, key_BSKC, value_BSKC, made->shape, single_output);
  return composite_forward(query_BTHC, key_BSKC, value_BSKC, made->shape, options, single_output);
}

HeadGradients attention_backward(const at::Tensor& query_BTHC, const at::Tensor& key_BSKC, const at::Tensor& value_BSKC,
                                 const AttentionResult& result, const at::Tensor& output_gradient_BTHC, const AttentionOptions& options, bool drops,
                                 bool single_gradients) {
  const std::shared_ptr<KernelShape> made = kernel_shape(query_BTHC, key_BSKC, value_BSKC, options, drops && options.dropout > 0.0);
  if (has_cpu_kernel(query_BTHC))
    return kernel_backward(query_BTHC, key_BSKC, value_BSKC, result, output_gradient_BTHC, made->shape, single_gradients);
  return composite_backward(query_BTHC, key_BSKC, value_BSKC, result, output_gradient_BTHC, made->shape, options, single_gradients);
}

AttentionResult with_sinks(const AttentionResult& result, const AttentionOptions& options) {
  const at::Tensor sinks_H = sinks_of_heads(options, result.lse_BHT.size(1));
  const at::Tensor sinks_BHT = sinks_H.to(result.lse_BHT.scalar_type()).view({1, -1, 1}).expand_as(result.lse_BHT);
  const at::Tensor lse_BHT = at::logaddexp(result.lse_BHT, sinks_BHT);
  const at::Tensor kept_BTH1 = (result.lse_BHT - lse_BHT).exp().transpose(1, 2).unsqueeze(3);
  return {(result.output_BTHC * kept_BTH1).to(result.output_BTHC.scalar_type()), lse_BHT};
}

void deliver_sinks_gradient(const AttentionOptions& options, const AttentionResult& result, const at::Tensor& output_gradient_BTHC) {
  Parameter& sinks = *options.sinks;
  deliver_weight_gradient(sinks, [&sinks, options, result, output_gradient_BTHC] {
    const auto type = result.lse_BHT.scalar_type();
    const at::Tensor own_H = sinks_of_heads(options, result.lse_BHT.size(1)).to(type);
    const at::Tensor share_BHT = (own_H.view({1, -1, 1}) - result.lse_BHT).exp();
    const at::Tensor product_BHT = at::sum(result.output_BTHC.to(type) * output_gradient_BTHC, {3}).transpose(1, 2);
    const at::Tensor gradient = at::zeros(sinks.weight.sizes(), own_H.options());
    // Spelt out: libtorch 2.11 could also read {0, 2} as names of dimensions.
    gradient.narrow(0, options.first_sink, own_H.size(0)).copy_(at::sum(share_BHT * product_BHT, at::IntArrayRef({0, 2})).neg());
    accumulate_gradient(sinks, gradient);
  });
}

Variable attention(Tape& tape, const Variable& query_BTHC, const Variable& key_BSKC, const Variable& value_BSKC, const AttentionOptions& options) {
  const at::Tensor &query = query_BTHC.value, &key = key_BSKC.value, &value = value_BSKC.value;
  const bool drops = tape.training();
  const AttentionResult own = attention_forward(query, key, value, options, drops, false);
  const AttentionResult result = options.sinks == nullptr ? own : with_sinks(own, options);
  Variable output = tape.variable(result.output_BTHC.view({query.size(0) * query.size(1), -1}));
  tape.record([query, key, value, result, options, drops, query_slot = query_BTHC.gradient, key_slot = key_BSKC.gradient,
               value_slot = value_BSKC.gradient, out = output.gradient] {
    if (out->empty() || query_slot == nullptr) return;
    const at::Tensor output_gradient = out->take().view(result.output_BTHC.sizes());
    if (options.sinks != nullptr) deliver_sinks_gradient(options, result, output_gradient);
    const HeadGradients gradients = attention_backward(query, key, value, result, output_gradient, options, drops, false);
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
  const at::Tensor sinks = options.sinks == nullptr ? at::Tensor() : sinks_of_heads(options, heads).to(at::kFloat);
  with_kernel_type(query_B1HC, [&]<class T>(T) {
    cpu::decode_attention<T>({.batch = batch,
                              .heads = heads,
                              .key_heads = key_BSKC.size(2),
                              .head_dim = query_B1HC.size(3),
                              .value_dim = value_dim,
                              .scale = static_cast<float>(options.scale),
                              .softcap = static_cast<float>(options.soft_cap.value_or(0.0)),
                              .window = options.sliding_window.value_or(0),
                              .sinks = kernel_data<const float>(sinks),
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
