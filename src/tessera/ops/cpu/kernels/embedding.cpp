#include "tessera/ops/cpu/embedding.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

template <class T>
void embedding_forward_kernel(const EmbeddingForward<T>& args) {
  const auto bytes = static_cast<std::size_t>(args.width) * sizeof(T);
  parallel_for(0, args.tokens, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      const std::int64_t id = args.ids[token] - args.first_id;
      T* output = args.output + token * args.width;
      const T* row = args.table + id * args.width;
      if (id < 0 || id >= args.vocabulary) {
        std::memset(static_cast<void*>(output), 0, bytes);
      } else if (args.scale == 1.0f) {
        std::memcpy(output, row, bytes);
      } else {
        for_vectors(args.width, [&](std::int64_t c, auto lanes) { store(output + c, load(row + c, lanes) * args.scale, lanes); });
      }
    }
  });
}

/// Every thread owns a range of table rows and walks over all tokens, so each row is summed in token order.
template <class T>
void embedding_backward_kernel(const EmbeddingBackward<T>& args) {
  const std::int64_t owned_at_least = args.tokens * args.width < kGrain ? args.vocabulary : 1;
  parallel_for(0, args.vocabulary, owned_at_least, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = 0; token < args.tokens; ++token) {
      const std::int64_t id = args.ids[token] - args.first_id;
      if (id < first || id >= last) continue;
      const T* source = args.output_gradient + token * args.width;
      float* target = args.table_gradient + id * args.width;
      for_vectors(args.width,
                  [&](std::int64_t c, auto lanes) { store(target + c, load(target + c, lanes) + load(source + c, lanes) * args.scale, lanes); });
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(embedding_forward_kernel, EmbeddingForward<float>)
TESSERA_KERNEL(embedding_forward_kernel, EmbeddingForward<bfloat16>)
TESSERA_KERNEL(embedding_backward_kernel, EmbeddingBackward<float>)
TESSERA_KERNEL(embedding_backward_kernel, EmbeddingBackward<bfloat16>)

}  // namespace tessera::ops::cpu
