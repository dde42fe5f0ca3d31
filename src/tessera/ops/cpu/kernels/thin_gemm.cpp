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

/// Dot products of one weight row with `rows` rows of x. With a single row of x four chains of sums hide the latency of the additions.
template <int rows, class W>
inline void dot_products(const WideInput& x, const W* weight, std::int64_t size, float* results) {
  constexpr int kChains = rows >= 4 ? 1 : 4 / rows;
  Vec sums[rows][kChains] = {};
  std::int64_t i = 0;
  for (; i + kChains * kLanes <= size; i += kChains * kLanes) {
    for (int chain = 0; chain < kChains; ++chain) {
      const std::int64_t at = i + chain * kLanes;
      __builtin_prefetch(reinterpret_cast<const char*>(weight + at) + kPrefetchBytes);
      const Vec w = load(weight + at);
      for (int row = 0; row < rows; ++row) sums[row][chain] += w * load(x.data + row * x.stride + at);
    }
  }
  for_vectors(size - i, [&](std::int64_t j, auto lanes) {
    const Vec w = load(weight + i + j, lanes);
    for (int row = 0; row < rows; ++row) sums[row][0] += w * load(x.data + row * x.stride + i + j);
  });
  for (int row = 0; row < rows; ++row) {
    for (int chain = 1; chain < kChains; ++chain) sums[row][0] += sums[row][chain];
    results[row] = sum(sums[row][0]);
  }
}

template <int rows, class T, class W>
void out_in_rows(const ThinGemm<T, W>& args, const WideInput& x, T* output) {
  const std::int64_t grain = (65536 + args.inputs - 1) / (args.inputs > 0 ? args.inputs : 1);
  parallel_for(0, args.outputs, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      float results[rows];
      dot_products<rows>(x, args.weight + n * args.inputs, args.inputs, results);
      const float bias = args.bias == nullptr ? 0.0f : to_float(args.bias[n]);
      for (int row = 0; row < rows; ++row) assign(output[row * args.output_stride + n], results[row] + bias);
    }
  });
}

/// sums[row, :] += x[row, k] * W[k, first:last] for k = begin … begin + depth.
template <int rows, int depth, class W>
inline void add_weight_rows(const WideInput& x, std::int64_t begin, const W* weight, std::int64_t outputs, std::int64_t columns, float* sums,
                            std::int64_t sums_stride) {
  for_vectors(columns, [&](std::int64_t c, auto lanes) {
    Vec w[depth];
    for (int k = 0; k < depth; ++k) {
      __builtin_prefetch(reinterpret_cast<const char*>(weight + k * outputs + c) + kPrefetchBytes);
      w[k] = load(weight + k * outputs + c, lanes);
    }
    for (int row = 0; row < rows; ++row) {
      Vec total = load(sums + row * sums_stride + c);
      for (int k = 0; k < depth; ++k) total += w[k] * x.data[row * x.stride + begin + k];
      store(sums + row * sums_stride + c, total);
    }
  });
}

template <int rows, class T, class W>
void in_out_columns(const ThinGemm<T, W>& args, const WideInput& x, T* output, std::int64_t first, std::int64_t last) {
  constexpr int kDepth = 4;
  const std::int64_t columns = last - first;
  const std::int64_t stride = padded(columns);
  const Scratch sums(rows * stride);
  std::memset(sums.data(), 0, static_cast<std::size_t>(rows * stride) * sizeof(float));
  const W* weight = args.weight + first;
  std::int64_t k = 0;
  for (; k + kDepth <= args.inputs; k += kDepth) {
    add_weight_rows<rows, kDepth>(x, k, weight + k * args.outputs, args.outputs, columns, sums.data(), stride);
  }
  for (; k < args.inputs; ++k) add_weight_rows<rows, 1>(x, k, weight + k * args.outputs, args.outputs, columns, sums.data(), stride);
  for (int row = 0; row < rows; ++row) {
    for_vectors(columns, [&](std::int64_t c, auto lanes) {
      Vec value = load(sums.data() + row * stride + c);
      if (args.bias != nullptr) value += load(args.bias + first + c, lanes);
      store(output + row * args.output_stride + first + c, value, lanes);
    });
  }
}

template <int rows, class T, class W>
void in_out_rows(const ThinGemm<T, W>& args, const WideInput& x, T* output) {
  const std::int64_t columns_at_least = 65536 / (args.inputs > 0 ? args.inputs : 1) + 64;
  parallel_for(0, args.outputs, columns_at_least, [&](std::int64_t first, std::int64_t last) { in_out_columns<rows>(args, x, output, first, last); });
}

template <int rows, class T, class W>
void multiply(const ThinGemm<T, W>& args, const WideInput& x, T* output) {
  if (args.order == WeightOrder::OutIn) {
    out_in_rows<rows>(args, x, output);
  } else {
    in_out_rows<rows>(args, x, output);
  }
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
