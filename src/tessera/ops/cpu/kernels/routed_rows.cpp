#include "tessera/ops/cpu/routed_rows.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

template <class T>
inline void sum_row(const SumOfPlaces<T>& args, std::int64_t row) {
  const std::int64_t first = args.starts[row], last = args.starts[row + 1];
  T* output = args.output + row * args.width;
  for_vectors(args.width, [&](std::int64_t c, auto lanes) {
    Vec total = {};
    for (std::int64_t pair = first; pair < last; ++pair) {
      if (args.places[pair] < 0) continue;
      const Vec value = load(args.input + args.places[pair] * args.width + c, lanes);
      total += args.weights == nullptr ? value : value * args.weights[pair];
    }
    store(output + c, total, lanes);
  });
}

template <class T>
void sum_of_places_kernel(const SumOfPlaces<T>& args) {
  parallel_for(0, args.rows, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) sum_row(args, row);
  });
}

template <class T>
inline float dot(const T* a, const T* b, std::int64_t size) {
  Vec total = {};
  for_vectors(size, [&](std::int64_t c, auto lanes) { total += load(a + c, lanes) * load(b + c, lanes); });
  return sum(total);
}

template <class T>
void rows_to_places_kernel(const RowsToPlaces<T>& args) {
  parallel_for(0, args.count, grain_rows(args.width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t place = first; place < last; ++place) {
      const T* input = args.input + args.rows[place] * args.width;
      T* output = args.output + place * args.width;
      if (args.partner != nullptr) args.dots[args.pairs[place]] = dot(input, args.partner + place * args.width, args.width);
      if (args.weights == nullptr) {
        std::memcpy(static_cast<void*>(output), input, static_cast<std::size_t>(args.width) * sizeof(T));
      } else {
        const float weight = args.weights[args.pairs[place]];
        for_vectors(args.width, [&](std::int64_t c, auto lanes) { store(output + c, load(input + c, lanes) * weight, lanes); });
      }
    }
  });
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(sum_of_places_kernel, SumOfPlaces<float>)
TESSERA_KERNEL(sum_of_places_kernel, SumOfPlaces<bfloat16>)
TESSERA_KERNEL(rows_to_places_kernel, RowsToPlaces<float>)
TESSERA_KERNEL(rows_to_places_kernel, RowsToPlaces<bfloat16>)

}  // namespace tessera::ops::cpu
