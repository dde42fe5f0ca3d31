#include "tessera/ops/parameter.h"

#include <ATen/ops/add.h>
#include <ATen/ops/copy.h>

namespace tessera::ops {

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
    parameter.gradient.add_(value);
  } else {
    parameter.gradient.copy_(value);
    parameter.gradient_written = true;
  }
}

}  // namespace tessera::ops
