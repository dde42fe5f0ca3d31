#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::pipeline {

/// What a rank computes of one stage in one step; the executor says when. Microbatches are numbered within the step.
class Stage {
 public:
  virtual ~Stage() = default;
  /// An empty tensor for what another rank sends: a microbatch's input here, or the gradient of its output, which looks the same.
  virtual at::Tensor message(int microbatch) const = 0;
  /// F. `input` is the previous stage's output, undefined at the first stage; so is the result at the last. The stage keeps what its backward needs.
  virtual at::Tensor forward(int microbatch, const at::Tensor& input) = 0;
  /// B, or I where the weight gradients are postponed: from the gradient of the output (undefined at the last stage) to that of the input (likewise
  /// at the first), both given away.
  virtual at::Tensor backward(int microbatch, at::Tensor output_gradient, bool put_off_weights) = 0;
  /// W: what I has postponed.
  virtual void weight_gradients(int microbatch) = 0;
  /// Begins to gather the stage's weights; drops them; begins to reduce its gradients.
  virtual void gather() = 0;
  virtual void free() = 0;
  virtual void reduce_gradients() = 0;
};

}  // namespace tessera::pipeline
