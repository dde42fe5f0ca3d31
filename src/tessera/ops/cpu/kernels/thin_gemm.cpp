#include "tessera/ops/cpu/thin_gemm.h"

#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

constexpr std::int64_t kMostRows = 8;          // rows of x that share one pass over the weight
constexpr std::int64_t kPrefetchBytes = 1024;  // ahead of the loads; hardware prefetchers stop at each 4 KiB page

/// x as fp32 rows of `inputs` padded with zeros to whole vectors: [rows, padded].
struct WideInput {
  const float* data;
  std::int64_t stride;
};

inline std::int64_t padded(std::int64_t size) { return (size + kLanes - 1) / kLanes * kLanes; }

template <class T>
void widen_rows(const T* input, std::int64_t input_stride, std::int64_t rows, std::int64_t size, float* output) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* target = output + row * padded(size);
    for_vectors(size, [&](std::int64_t i, auto lanes) { store(target + i, load(input + row * input_stride + i, lanes)); });
  }
}

/// How many weight rows, far apart in memory, are read at the same time. Several streams keep more of the memory system busy than one (two
/// cores read 31 GB/s in one stream each, 34 in eight); more rows of x leave fewer registers for them.
constexpr int streams_for(int rows) {
  const int sums = kLanes == 16 ? 16 : 8;  // registers for them
  return rows * 8 <= sums ? 8 : (rows * 4 <= sums ? 4 : (rows * 2 <= sums ? 2 : 1));
}

/// Dot products of `streams` weight rows, `weight_stride` apart, with `rows` rows of x: results[row][stream].
template <int rows, int streams, class W>
inline void dot_products(const WideInput& x, const W* weight, std::int64_t weight_stride, std::int64_t size, float (&results)[rows][streams]) {
  constexpr std::int64_t kLine = 64 / sizeof(W) > kLanes ? 64 / sizeof(W) : kLanes;  // elements between prefetches
  Vec sums[rows][streams] = {};
  const auto add = [&](std::int64_t at, auto lanes) {
    for (int stream = 0; stream < streams; ++stream) {
      const Vec w = load(weight + stream * weight_stride + at, lanes);
      for (int row = 0; row < rows; ++row) sums[row][stream] += w * load(x.data + row * x.stride + at);
    }
  };
  std::int64_t i = 0;
  for (; i + kLine <= size; i += kLine) {
    for (int stream = 0; stream < streams; ++stream) {
      __builtin_prefetch(reinterpret_cast<const char*>(weight + stream * weight_stride + i) + kPrefetchBytes);
    }
    for (std::int64_t j = 0; j < kLine; j += kLanes) add(i + j, Full{});
  }
  for (; i + kLanes <= size; i += kLanes) add(i, Full{});
  if (i < size) add(i, Partial{size - i});
  for (int row = 0; row < rows; ++row) {
    for (int stream = 0; stream < streams; ++stream) results[row][stream] = sum(sums[row][stream]);
  }
}

/// Outputs first, first + step, … (streams of them).
template <int rows, int streams, class T, class W>
inline void write_outputs(const ThinGemm<T, W>& args, const WideInput& x, T* output, std::int64_t first, std::int64_t step) {
  float results[rows][streams];
  dot_products<rows, streams>(x, args.weight + first * args.inputs, step * args.inputs, args.inputs, results);
  for (int stream = 0; stream < streams; ++stream) {
    const std::int64_t n = first + stream * step;
    const float bias = args.bias == nullptr ? 0.0f : to_float(args.bias[n]);
    for (int row = 0; row < rows; ++row) assign(output[row * args.output_stride + n], results[row][stream] + bias);
  }
}

template <int rows, class T, class W>
void multiply(const ThinGemm<T, W>& args, const WideInput& x, T* output) {
  constexpr int kStreams = streams_for(rows);
  const std::int64_t grain = (65536 + args.inputs - 1) / (args.inputs > 0 ? args.inputs : 1);
  parallel_for(0, args.outputs, grain, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t step = (last - first) / kStreams;
    for (std::int64_t n = 0; n < step; ++n) write_outputs<rows, kStreams>(args, x, output, first + n, step);
    for (std::int64_t n = first + step * kStreams; n < last; ++n) write_outputs<rows, 1>(args, x, output, n, 1);
  });
}

template <class T, class W>
void multiply_rows(const ThinGemm<T, W>& args, std::int64_t rows, const WideInput& x, T* output) {
  switch (rows) {
    case 1:
      return multiply<1>(args, x, output);
    case 2:
      return multiply<2>(args, x, output);
    case 3:
      return multiply<3>(args, x, output);
    case 4:
      return multiply<4>(args, x, output);
    case 5:
      return multiply<5>(args, x, output);
    case 6:
      return multiply<6>(args, x, output);
    case 7:
      return multiply<7>(args, x, output);
    default:
      return multiply<8>(args, x, output);
  }
}

template <class T, class W>
void thin_gemm_kernel(const ThinGemm<T, W>& args) {
  const std::int64_t stride = padded(args.inputs);
  const Scratch wide(kMostRows * stride);
  for (std::int64_t first = 0; first < args.rows; first += kMostRows) {
    const std::int64_t rows = args.rows - first < kMostRows ? args.rows - first : kMostRows;
    widen_rows(args.input + first * args.input_stride, args.input_stride, rows, args.inputs, wide.data());
    multiply_rows(args, rows, {wide.data(), stride}, args.output + first * args.output_stride);
  }
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(thin_gemm_kernel, ThinGemm<float, float>)
TESSERA_KERNEL(thin_gemm_kernel, ThinGemm<bfloat16, bfloat16>)
TESSERA_KERNEL(thin_gemm_kernel, ThinGemm<float, bfloat16>)

}  // namespace tessera::ops::cpu
