#include "tessera/ops/parameter.h"

#include <ATen/ops/add.h>
#include <ATen/ops/copy.h>

#include <algorithm>

namespace tessera::ops {
namespace {

/// Adding a bf16 value makes an fp32 copy of all that is added at once: of some rows, not of the largest weight in the model.
void add_in_stretches(const at::Tensor& sum, const at::Tensor& value) {
  constexpr std::int64_t kElements = 1 << 16;
  if (value.numel() == 0) return;
  const std::int64_t rows = value.size(0);
  const std::int64_t step = value.scalar_type() == sum.scalar_type() ? rows : std::max<std::int64_t>(1, kElements * rows / value.numel());
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    sum.narrow(0, row, count).add_(value.narrow(0, row, count));
  }
}

}  // namespace

void WeightGradientQueue::drain() {
  std::vector<std::function<void()>> work;
  work.swap(pending_);
  for (auto& compute : work) {
    compute();
    compute = nullptr;  // frees the activations it held
  }
}

void deliver_weight_gradient(Parameter& parameter, std::function<void()> compute) {
  if (!parameter.trainable) return;
  if (parameter.queue != nullptr) {
    parameter.queue->push(std::move(compute));
  } else {
    compute();
  }
}

void accumulate_gradient(Parameter& parameter, const at::Tensor& value) {
  if (parameter.gradient_written) {
    add_in_stretches(parameter.gradient, value);
  } else {
    parameter.gradient.copy_(value);
    parameter.gradient_written = true;
  }
}

}  // namespace tessera::ops
