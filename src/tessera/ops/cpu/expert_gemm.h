#pragma once

#include <cstdint>

#include "tessera/ops/cpu/isa.h"

/// The three products of a linear operator in fp32 for a few tens of rows, as one of many experts gets them, on the calling thread. Each weight is
/// used for so few products that waiting for memory costs as much as the products, so the next part of the weight is fetched while one part is
/// multiplied; at its end, what follows in memory (the next expert's weight) is fetched. All operands are contiguous; any size is correct.
namespace tessera::ops::cpu {

/// output[n, o] = Σ_i input[n, i] · weight[o, i].
struct ExpertForward {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  const float* input = nullptr;   ///< [rows, inputs]
  const float* weight = nullptr;  ///< [outputs, inputs]
  float* output = nullptr;        ///< [rows, outputs]
};
void expert_forward(const ExpertForward& args, Isa isa = best_isa());

/// input_gradient[n, i] = Σ_o gradient[n, o] · weight[o, i].
struct ExpertInputGradient {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  const float* gradient = nullptr;  ///< [rows, outputs]
  const float* weight = nullptr;    ///< [outputs, inputs]
  float* input_gradient = nullptr;  ///< [rows, inputs]
};
void expert_input_gradient(const ExpertInputGradient& args, Isa isa = best_isa());

/// weight_gradient[o, i] (+)= Σ_n gradient[n, o] · input[n, i].
struct ExpertWeightGradient {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  const float* gradient = nullptr;   ///< [rows, outputs]
  const float* input = nullptr;      ///< [rows, inputs]
  float* weight_gradient = nullptr;  ///< [outputs, inputs]
  bool accumulate = false;           ///< false: overwritten, past the caches where it is aligned
};
void expert_weight_gradient(const ExpertWeightGradient& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
