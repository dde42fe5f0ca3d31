#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// One step over a flat fp32 range, in torch.optim's order of operations:
///   g = gradient * gradient_scale; Adam: g += weight_decay * p; AdamW (decoupled): p -= lr * weight_decay * p;
///   m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g²; p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon).
struct AdamStep {
  std::int64_t size = 0;
  float* parameter = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  const float* gradient = nullptr;
  bfloat16* bfloat16_copy = nullptr;  ///< when not null also receives the new parameters, rounded
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = true;
  double gradient_scale = 1.0;  ///< the clip factor
  std::int64_t step = 1;        ///< 1 for the first
};
void adam_step(const AdamStep& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
