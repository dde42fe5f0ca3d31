#include "tessera/ops/linear_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/labels.h"
#include "tessera/ops/cpu/cross_entropy.h"
#include "tessera/ops/kernel_types.h"
#include "tessera/ops/linear.h"

namespace tessera::ops {
namespace {

// Large enough that reading and writing the weight gradient once a chunk is cheap compared with its GEMM.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

template <class T>
cpu::LogitsChunk<T> chunk_of(const at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, std::int64_t first_id) {
  return {.rows = logits.size(0),
          .columns = logits.size(1),
          .logits = kernel_data<T>(logits),
          .row_stride = logits.stride(0),
          .scale = static_cast<float>(1.0 / options.divisor),
          .softcap = static_cast<float>(options.soft_cap.value_or(0.0)),
          .targets = labels.data_ptr<std::int64_t>(),
          .first_id = first_id};
}

double kernel_loss(at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, bool gradient, double gradient_scale) {
  double sum = 0.0;
  with_kernel_type(logits, [&]<class T>(T) {
    sum = cpu::cross_entropy<T>(
        {.chunk = chunk_of<T>(logits, labels, options, 0), .write_gradient = gradient, .gradient_scale = static_cast<float>(gradient_scale)});
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

/// Of each row, [rows] in fp64: log-sum-exp over this slice, and the target's logit (0 when it is elsewhere).
struct SliceParts {
  at::Tensor lse, target;
};

SliceParts kernel_parts(const at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, std::int64_t first_id) {
  const at::Tensor maximum = at::empty({logits.size(0)}, at::kFloat), sum = at::empty_like(maximum), target = at::empty_like(maximum);
  with_kernel_type(logits, [&]<class T>(T) {
    const auto chunk = chunk_of<T>(logits, labels, options, first_id);
    cpu::logits_row_max(chunk, maximum.data_ptr<float>());
    cpu::logits_row_sum_exp(chunk, maximum.data_ptr<float>(), sum.data_ptr<float>());
    cpu::logits_target(chunk, target.data_ptr<float>());
  });
  return {maximum.to(at::kDouble) + sum.to(at::kDouble).log(), target.to(at::kDouble)};
}

/// Where the targets are in this slice: columns, and a mask of the rows that have one.
struct SliceTargets {
  at::Tensor column, here;  // [rows, 1]
};

SliceTargets slice_targets(const at::Tensor& labels, std::int64_t first_id, std::int64_t columns) {
  const at::Tensor column = (labels - first_id).unsqueeze(1);
  const at::Tensor here = column.ge(0).logical_and(column.lt(columns));
  return {column.masked_fill(here.logical_not(), 0), here};
}

SliceParts composite_parts(const at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, std::int64_t first_id) {
  const at::Tensor z = shaped(logits.to(compute_type(logits)), options);
  const SliceTargets targets = slice_targets(labels, first_id, z.size(1));
  const at::Tensor target = z.gather(1, targets.column).masked_fill(targets.here.logical_not(), 0.0).squeeze(1);
  return {at::logsumexp(z, {1}).to(at::kDouble), target.to(at::kDouble)};
}

void composite_gradient(at::Tensor& logits, const at::Tensor& labels, const LogitsOptions& options, std::int64_t first_id, const at::Tensor& lse,
                        double gradient_scale) {
  at::Tensor tanh;
  const at::Tensor z = shaped(logits.to(compute_type(logits)), options, &tanh);
  at::Tensor dlogits = (z - lse.to(z.scalar_type()).unsqueeze(1)).exp();
  const SliceTargets targets = slice_targets(labels, first_id, z.size(1));
  dlogits.scatter_add_(1, targets.column, targets.here.to(z.scalar_type()).neg());
  if (options.soft_cap) dlogits = dlogits * (1.0 - tanh * tanh);
  logits.copy_(dlogits * (gradient_scale / options.divisor));
}

/// The loss of the whole vocabulary; the logits of this slice become their gradient when asked. Those of padding are zero, as its weights are, and
/// stay so.
double slice_loss(at::Tensor& padded, const at::Tensor& labels, const LogitsOptions& options, const VocabularySlice& slice, bool gradient,
                  double gradient_scale) {
  at::Tensor logits = padded.narrow(1, 0, slice.num_ids);
  const bool kernel = has_cpu_kernel(logits);
  const SliceParts parts = slice.num_ids == 0
                               ? SliceParts{at::full({labels.size(0)}, -INFINITY, at::kDouble), at::zeros({labels.size(0)}, at::kDouble)}
                               : (kernel ? kernel_parts : composite_parts)(logits, labels, options, slice.first_id);
  const at::Tensor whole = slice.combine(at::stack({parts.lse, parts.target}));
  const at::Tensor lse = whole[0];
  if (gradient) {
    if (kernel) {
      const at::Tensor lse_fp32 = lse.to(at::kFloat).contiguous();
      with_kernel_type(logits, [&]<class T>(T) {
        cpu::logits_gradient(chunk_of<T>(logits, labels, options, slice.first_id), lse_fp32.data_ptr<float>(), static_cast<float>(gradient_scale));
      });
    } else {
      composite_gradient(logits, labels, options, slice.first_id, lse, gradient_scale);
    }
  }
  return (lse - whole[1]).sum().item<double>();
}

}  // namespace

std::int64_t loss_chunk_rows(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t chunks = (rows * vocabulary * 4 + kChunkBytes - 1) / kChunkBytes;
  return std::max<std::int64_t>(1, (rows + chunks - 1) / std::max<std::int64_t>(chunks, 1));
}

LossSum linear_cross_entropy(Tape& tape, const Variable& hidden_ND, Parameter& weight, const LogitsOptions& options, const at::Tensor& labels_N,
                             double gradient_scale, const VocabularySlice* slice) {
  const at::Tensor valid = at::nonzero(labels_N.ne(kIgnoredLabel)).squeeze(1);
  const std::int64_t count = valid.size(0);
  const bool all = count == labels_N.size(0);
  const at::Tensor hidden = (all ? hidden_ND.value : at::index_select(hidden_ND.value, 0, valid)).to(weight.compute_type());
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
    const at::Tensor chunk_labels = labels.narrow(0, row, rows);
    loss.sum += slice != nullptr ? slice_loss(logits, chunk_labels, options, *slice, recording, gradient_scale)
                                 : (has_cpu_kernel(logits) ? kernel_loss : composite_loss)(logits, chunk_labels, options, recording, gradient_scale);
    if (!recording) continue;
    at::Tensor chunk_gradient = gradient.narrow(0, row, rows);
    matmul_nn_out(chunk_gradient, logits, weight.weight);
    if (weight.trainable) accumulate_weight_gradient(weight, logits, chunk);
  }
  if (recording) gradient = gradient.to(hidden_ND.value.scalar_type());
  tape.record([gradient, valid, all, slot = hidden_ND.gradient, rows = hidden_ND.value.size(0)] {
    if (slot == nullptr) return;
    slot->add_owned(all ? gradient : at::zeros({rows, gradient.size(1)}, gradient.options()).index_copy_(0, valid, gradient));
  });
  return loss;
}

at::Tensor logits(const at::Tensor& hidden_ND, const Parameter& weight, const LogitsOptions& options) {
  const at::Tensor raw = linear_forward(hidden_ND.to(weight.compute_type()), weight.weight);
  return shaped(raw.to(compute_type(raw)), options);
}

}  // namespace tessera::ops
