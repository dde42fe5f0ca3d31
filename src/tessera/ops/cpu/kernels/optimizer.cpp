#include "tessera/ops/cpu/optimizer.h"

#include <cmath>

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

/// The step's constants, rounded to fp32 once.
struct AdamConstants {
  float gradient_scale;
  float coupled_decay;    // added to the gradient, times p
  float decoupled_decay;  // taken from p, times p
  float first_rate;       // 1 - beta1
  float beta2;
  float second_rate;  // 1 - beta2
  float step_size;    // lr / (1 - beta1^step)
  float correction;   // sqrt(1 - beta2^step)
  float epsilon;
};

AdamConstants adam_constants(const AdamStep& args) {
  const auto step = static_cast<double>(args.step);
  AdamConstants c;
  c.gradient_scale = static_cast<float>(args.gradient_scale);
  c.coupled_decay = args.decoupled ? 0.0f : static_cast<float>(args.weight_decay);
  c.decoupled_decay = args.decoupled ? static_cast<float>(args.learning_rate * args.weight_decay) : 0.0f;
  c.first_rate = static_cast<float>(1.0 - args.beta1);
  c.beta2 = static_cast<float>(args.beta2);
  c.second_rate = static_cast<float>(1.0 - args.beta2);
  c.step_size = static_cast<float>(args.learning_rate / (1.0 - std::pow(args.beta1, step)));
  c.correction = static_cast<float>(std::sqrt(1.0 - std::pow(args.beta2, step)));
  c.epsilon = static_cast<float>(args.epsilon);
  return c;
}

// A plain loop: the compiler vectorises it, the square root included.
void adam_range(const AdamConstants& c, std::int64_t size, float* __restrict parameter, float* __restrict first_moment,
                float* __restrict second_moment, const float* __restrict gradient) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const float p = parameter[i];
    const float g = gradient[i] * c.gradient_scale + c.coupled_decay * p;
    const float m = first_moment[i] + c.first_rate * (g - first_moment[i]);
    const float v = c.beta2 * second_moment[i] + c.second_rate * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    parameter[i] = p - c.decoupled_decay * p - c.step_size * m / (std::sqrt(v) / c.correction + c.epsilon);
  }
}

void adam_step_kernel(const AdamStep& args) {
  constexpr std::int64_t kChunk = 2048;  // small enough that the bf16 copy is made from the first-level cache
  const AdamConstants constants = adam_constants(args);
  parallel_for(0, (args.size + kChunk - 1) / kChunk, kGrain / kChunk, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t begin = chunk * kChunk;
      const std::int64_t size = begin + kChunk < args.size ? kChunk : args.size - begin;
      adam_range(constants, size, args.parameter + begin, args.first_moment + begin, args.second_moment + begin, args.gradient + begin);
      if (args.bfloat16_copy == nullptr) continue;
      for_vectors(size, [&](std::int64_t i, auto lanes) { store(args.bfloat16_copy + begin + i, load(args.parameter + begin + i, lanes), lanes); });
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(adam_step_kernel, AdamStep)

}  // namespace tessera::ops::cpu
