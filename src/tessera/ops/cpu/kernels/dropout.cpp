#include "tessera/ops/cpu/kernels/dropout.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

template <class T>
void dropout_add_kernel(const DropoutAdd<T>& args) {
  const DropoutMask mask(args.probability);
  parallel_for(0, args.rows, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t offset = row * args.width;
      const std::uint64_t key = args.probability > 0.0f ? args.row_keys[row] : 0;
      for_vectors(args.width, [&](std::int64_t c, auto lanes) {
        Vec value = load(args.input + offset + c, lanes);
        if (args.probability > 0.0f) value = mask.apply(value, key, args.first_element + static_cast<std::uint32_t>(c));
        if (args.residual != nullptr) value += load(args.residual + offset + c, lanes);
        store(args.output + offset + c, value, lanes);
      });
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(dropout_add_kernel, DropoutAdd<float>)
TESSERA_KERNEL(dropout_add_kernel, DropoutAdd<bfloat16>)

}  // namespace tessera::ops::cpu
