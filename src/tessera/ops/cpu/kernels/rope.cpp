#include "tessera/ops/cpu/rope.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

template <class T>
inline void rotate_halves(const T* x, T* y, std::int64_t half, const float* cosines, const float* sines, float direction) {
  for_vectors(half, [&](std::int64_t i, auto lanes) {
    const Vec cosine = load(cosines + i, lanes);
    const Vec sine = load(sines + i, lanes) * direction;
    const Vec a = load(x + i, lanes);
    const Vec b = load(x + half + i, lanes);
    store(y + i, a * cosine - b * sine, lanes);
    store(y + half + i, b * cosine + a * sine, lanes);
  });
}

template <class T>
inline void rotate_neighbours(const T* x, T* y, std::int64_t half, const float* cosines, const float* sines, float direction) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float sine = sines[i] * direction;
    const float a = to_float(x[2 * i]);
    const float b = to_float(x[2 * i + 1]);
    assign(y[2 * i], a * cosines[i] - b * sine);
    assign(y[2 * i + 1], b * cosines[i] + a * sine);
  }
}

template <class T>
void rope_kernel(const Rope<T>& args) {
  const std::int64_t half = args.rotary_dim / 2;
  const std::int64_t rest = args.head_dim - args.rotary_dim;
  const float direction = args.inverse ? -1.0f : 1.0f;
  const std::int64_t tokens_per_row = args.tokens_per_row > 0 ? args.tokens_per_row : args.tokens;
  parallel_for(0, args.tokens, grain_rows(args.heads * args.head_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      const std::int64_t position = args.position_ids != nullptr ? args.position_ids[token] : args.first_position + token % tokens_per_row;
      const float* cosines = args.cosines + position * half;
      const float* sines = args.sines + position * half;
      for (std::int64_t head = 0; head < args.heads; ++head) {
        const T* x = args.input + token * args.input_token_stride + head * args.input_head_stride;
        T* y = args.output + token * args.output_token_stride + head * args.output_head_stride;
        if (args.pairs == RopePairs::HalfSplit) {
          rotate_halves(x, y, half, cosines, sines, direction);
        } else {
          rotate_neighbours(x, y, half, cosines, sines, direction);
        }
        if (rest > 0 && y != x) std::memcpy(y + args.rotary_dim, x + args.rotary_dim, static_cast<std::size_t>(rest) * sizeof(T));
      }
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(rope_kernel, Rope<float>)
TESSERA_KERNEL(rope_kernel, Rope<bfloat16>)

}  // namespace tessera::ops::cpu
