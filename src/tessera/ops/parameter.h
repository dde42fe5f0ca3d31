#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::ops {

/// Weight gradients that are computed later, in the order they were deferred. Zero-bubble pipeline schedules run the input
/// gradients of a microbatch first and drain this queue when there is time.
class WeightGradientQueue {
 public:
  void push(std::function<void()> compute) { pending_.push_back(std::move(compute)); }
  /// Runs and forgets everything pending.
  void drain();
  bool empty() const { return pending_.empty(); }

 private:
  std::vector<std::function<void()>> pending_;
};

/// One weight as operators see it. Operators keep a pointer to this object, never a tensor, so that a data-parallel engine may free and
/// gather the buffers behind it between uses. Whoever owns the buffers (model::ParameterStore, later the sharding engine) sets the views.
struct Parameter {
  std::string name;                      ///< the name in the parameter table
  at::Tensor weight;                     ///< compute dtype (but see `widened`), the local shape; undefined while its unit is not gathered
  at::Tensor gradient;                   ///< fp32 accumulator of the same shape (fp64 when the weight is); undefined when frozen, and while not kept
  bool trainable = false;                ///< whether operators deliver a gradient
  bool gradient_written = false;         ///< false: the first gradient of a step overwrites the accumulator, later ones add
  WeightGradientQueue* queue = nullptr;  ///< when set, weight gradients are deferred to it
  /// A bf16 weight in a model that computes in fp32 and is not trained: linear and embedding widen it as they read it.
  bool widened = false;

  /// Of the activations that are made with this weight.
  at::ScalarType compute_type() const { return widened ? at::kFloat : weight.scalar_type(); }
};

/// Runs `compute` now, or defers it to the parameter's queue. Nothing happens for a frozen parameter.
void deliver_weight_gradient(Parameter& parameter, std::function<void()> compute);

/// gradient (+)= `value`, which may be in the compute dtype; overwrites when nothing was written in this step.
void accumulate_gradient(Parameter& parameter, const at::Tensor& value);

}  // namespace tessera::ops
