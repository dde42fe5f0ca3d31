#include "tessera/ops/linear_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "tessera/ops/cpu/cross_entropy.h"
#include "tessera/ops/kernel_types.h"
#include "tessera/ops/linear.h"

namespace tessera::ops {
namespace {

// Large enough that reading and writing the weight gradient once a chunk is cheap beside its GEMM.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

double kernel_loss(at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, bool gradient, double gradient_scale) {
  double sum = 0.0;
  with_kernel_type(logits, [&]<class T>(T) {
    sum = cpu::cross_entropy<T>({.chunk = {.rows = logits.size(0),
                                           .columns = logits.size(1),
                                           .logits = kernel_data<T>(logits),
                                           .row_stride = logits.stride(0),
                                           .scale = static_cast<float>(1.0 / options.divisor),
                                           .softcap = static_cast<float>(options.soft_cap.value_or(0.0)),
                                           .targets = labels.data_ptr<std::int64_t>()},
                                 .write_gradient = gradient,
                                 .gradient_scale = static_cast<float>(gradient_scale)});
  });
  return sum;
}

/// Applies divisor and cap; `tanh`, when given, receives tanh(logits / cap).
at::Tensor shaped(const at::Tensor& raw, const LogitsOptions& options, at::Tensor* tanh = nullptr) {
  at::Tensor logits = options.divisor == 1.0 ? raw : raw / options.divisor;
  if (!options.soft_cap) return logits;
  const at::Tensor bent = (logits / *options.soft_cap).tanh();
  if (tanh != nullptr) *tanh = bent;
  return bent * *options.soft_cap;
}

/// The same by ATen; logits become their gradient when asked.
double composite_loss(at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, bool gradient, double gradient_scale) {
  at::Tensor tanh;
  const at::Tensor log_probabilities = at::log_softmax(shaped(logits.to(compute_type(logits)), options, &tanh), -1);
  const at::Tensor target = labels.unsqueeze(1);
  const double sum = -log_probabilities.gather(1, target).sum(at::kDouble).item<double>();
  if (gradient) {
    at::Tensor dlogits = log_probabilities.exp();
    dlogits.scatter_add_(1, target, at::full(target.sizes(), -1.0, dlogits.options()));
    if (options.soft_cap) dlogits = dlogits * (1.0 - tanh * tanh);
    logits = (dlogits * (gradient_scale / options.divisor)).to(logits.scalar_type());
  }
  return sum;
}

}  // namespace

std::int64_t loss_chunk_rows(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t chunks = (rows * vocabulary * 4 + kChunkBytes - 1) / kChunkBytes;
  return std::max<std::int64_t>(1, (rows + chunks - 1) / std::max<std::int64_t>(chunks, 1));
}

LossSum linear_cross_entropy(Tape& tape, const Variable& hidden_ND, Parameter& weight, const LogitsOptions& options, const at::Tensor& labels_N,
                             double gradient_scale) {
  const at::Tensor valid = at::nonzero(labels_N.ne(-100)).squeeze(1);
  const std::int64_t count = valid.size(0);
  const bool all = count == labels_N.size(0);
  const at::Tensor hidden = all ? hidden_ND.value : at::index_select(hidden_ND.value, 0, valid);
  const at::Tensor labels = all ? labels_N.contiguous() : at::index_select(labels_N, 0, valid);
  const bool recording = tape.recording();
  at::Tensor gradient = recording ? at::empty_like(hidden) : at::Tensor();
  LossSum loss{0.0, count};
  const std::int64_t step = loss_chunk_rows(count, weight.weight.size(0));
  const at::Tensor buffer = at::empty({std::min(step, count), weight.weight.size(0)}, hidden.options());
  for (std::int64_t row = 0; row < count; row += step) {
    const std::int64_t rows = std::min(step, count - row);
    const at::Tensor chunk = hidden.narrow(0, row, rows);
    at::Tensor logits = buffer.narrow(0, 0, rows);
    matmul_nt_out(logits, chunk, weight.weight);
    loss.sum += (has_cpu_kernel(logits) ? kernel_loss : composite_loss)(logits, labels.narrow(0, row, rows), options, recording, gradient_scale);
    if (!recording) continue;
    at::Tensor chunk_gradient = gradient.narrow(0, row, rows);
    matmul_nn_out(chunk_gradient, logits, weight.weight);
    if (weight.trainable) accumulate_weight_gradient(weight, logits, chunk);
  }
  tape.record([gradient, valid, all, slot = hidden_ND.gradient, rows = hidden_ND.value.size(0)] {
    if (slot == nullptr) return;
    slot->add_owned(all ? gradient : at::zeros({rows, gradient.size(1)}, gradient.options()).index_copy_(0, valid, gradient));
  });
  return loss;
}

at::Tensor logits(const at::Tensor& hidden_ND, const Parameter& weight, const LogitsOptions& options) {
  const at::Tensor raw = linear_inference(hidden_ND, weight.weight);
  return shaped(raw.to(compute_type(raw)), options);
}

}  // namespace tessera::ops
