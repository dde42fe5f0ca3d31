#include "tessera/ops/cpu/rope.h"

#include <cstring>

#include "tessera/ops/cpu/parallel.h"

namespace tessera::ops::cpu {

template <class T>
void copy_heads(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, const T* input, std::int64_t input_token_stride,
                std::int64_t input_head_stride, T* output, std::int64_t output_token_stride, std::int64_t output_head_stride) {
  parallel_for(0, tokens, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      for (std::int64_t head = 0; head < heads; ++head) {
        std::memcpy(output + token * output_token_stride + head * output_head_stride, input + token * input_token_stride + head * input_head_stride,
                    static_cast<std::size_t>(head_dim) * sizeof(T));
      }
    }
  });
}

template void copy_heads(std::int64_t, std::int64_t, std::int64_t, const float*, std::int64_t, std::int64_t, float*, std::int64_t, std::int64_t);
template void copy_heads(std::int64_t, std::int64_t, std::int64_t, const bfloat16*, std::int64_t, std::int64_t, bfloat16*, std::int64_t,
                         std::int64_t);

}  // namespace tessera::ops::cpu
