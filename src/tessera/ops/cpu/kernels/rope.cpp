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
void rope_kernel(const Rope<T>& args) {
  const std::int64_t half = args.rotary_dim / 2;
  const std::int64_t rest = args.head_dim - args.rotary_dim;
  const float direction = args.inverse ? -1.0f : 1.0f;
  parallel_for(0, args.tokens, grain_rows(args.heads * args.head_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      for (std::int64_t head = 0; head < args.heads; ++head) {
        const T* x = args.input + token * args.input_token_stride + head * args.input_head_stride;
        T* y = args.output + token * args.output_token_stride + head * args.output_head_stride;
        rotate_halves(x, y, half, args.cosines + token * half, args.sines + token * half, direction);
        if (rest > 0 && y != x) std::memcpy(y + args.rotary_dim, x + args.rotary_dim, static_cast<std::size_t>(rest) * sizeof(T));
      }
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(rope_kernel, Rope<float>)
TESSERA_KERNEL(rope_kernel, Rope<bfloat16>)

}  // namespace tessera::ops::cpu
