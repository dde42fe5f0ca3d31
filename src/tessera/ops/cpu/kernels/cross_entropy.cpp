#include "tessera/ops/cpu/cross_entropy.h"

#include <cmath>
#include <limits>

#include "tessera/ops/cpu/arguments.h"
#include "tessera/ops/cpu/dispatch.h"
#include "tessera/ops/cpu/kernels/math.h"
#include "tessera/ops/cpu/kernels/row_blocks.h"

namespace tessera::ops::cpu {
namespace TESSERA_KERNEL_ISA {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// From raw logits x to logits z and dz/dx.
struct LogitMap {
  float scale;
  float softcap;

  template <bool capped>
  Vec logit(Vec x) const {
    if constexpr (!capped) return x * scale;
    return softcap * tanh(x * (scale / softcap));
  }
  struct WithSlope {
    Vec logit;
    Vec slope;
  };
  template <bool capped>
  WithSlope with_slope(Vec x) const {
    if constexpr (!capped) return {x * scale, broadcast(scale)};
    const Vec t = tanh(x * (scale / softcap));
    return {softcap * t, scale * (1.0f - t * t)};
  }
};

/// a > b ? a : b, but NaN if either is.
inline Vec max_or_nan(Vec a, Vec b) { return (a > b || a != a) ? a : b; }

inline float largest_or_nan(Vec value) {
  const bool has_nan = sum(value != value ? broadcast(1.0f) : Vec{}) != 0.0f;
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : largest(value);
}

template <bool capped, class T>
inline float row_maximum(const LogitMap& map, const T* x, std::int64_t size) {
  Vec largest_of_lanes[2] = {broadcast(-kInfinity), broadcast(-kInfinity)};
  int chain = 0;
  for_vectors(size, [&](std::int64_t c, auto lanes) {
    const Vec z = keep_or(map.logit<capped>(load(x + c, lanes)), broadcast(-kInfinity), lanes);
    largest_of_lanes[chain] = max_or_nan(z, largest_of_lanes[chain]);
    chain ^= 1;
  });
  return largest_or_nan(max_or_nan(largest_of_lanes[0], largest_of_lanes[1]));
}

/// sum exp(z - maximum), fp64 across blocks.
template <bool capped, class T>
inline double row_sum_exp(const LogitMap& map, const T* x, std::int64_t size, float maximum) {
  const float shift = maximum == -kInfinity ? 0.0f : maximum;  // a row of -infinities sums to 0, not NaN
  Vec sums = {};
  for_vectors(size, [&](std::int64_t c, auto lanes) { sums += keep(exp_nonpositive(map.logit<capped>(load(x + c, lanes)) - shift), lanes); });
  return sum(sums);
}

struct MaxAndSum {
  float maximum;
  double sum;
};

/// One reading of the row from memory: the maximum is raised block by block, each block being read again from the first-level cache.
template <bool capped, class T>
MaxAndSum online_max_and_sum(const LogitMap& map, const T* x, std::int64_t size) {
  constexpr std::int64_t kBlock = 2048;
  MaxAndSum result{-kInfinity, 0.0};
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    const std::int64_t block = begin + kBlock < size ? kBlock : size - begin;
    const float block_maximum = row_maximum<capped>(map, x + begin, block);
    if (!(block_maximum <= result.maximum)) {
      if (result.sum != 0.0) result.sum *= std::exp(static_cast<double>(result.maximum) - block_maximum);
      result.maximum = block_maximum;
    }
    result.sum += row_sum_exp<capped>(map, x + begin, block, result.maximum);
  }
  return result;
}

template <bool capped, class T>
inline float logit_at(const LogitMap& map, const T* x) {
  return map.logit<capped>(broadcast(to_float(*x)))[0];
}

template <bool capped, class T>
void write_row_gradient(const LogitMap& map, T* x, std::int64_t size, float lse, std::int64_t target, float gradient_scale) {
  const bool here = target >= 0 && target < size;
  const float target_value = here ? to_float(x[target]) : 0.0f;
  for_vectors(size, [&](std::int64_t c, auto lanes) {
    const auto z = map.with_slope<capped>(load(x + c, lanes));
    store(x + c, exp_nonpositive(z.logit - lse) * (z.slope * gradient_scale), lanes);
  });
  if (!here) return;
  const auto z = map.with_slope<capped>(broadcast(target_value));
  assign(x[target], ((exp_nonpositive(z.logit - lse) - 1.0f) * (z.slope * gradient_scale))[0]);
}

template <class T>
void clear_row(T* x, std::int64_t size) {
  std::memset(static_cast<void*>(x), 0, static_cast<std::size_t>(size) * sizeof(T));
}

template <bool condition>
struct Constant {
  static constexpr bool value = condition;
};

/// Calls body(row, x, capped as a compile-time constant) for every row, on all threads.
template <class T, class Body>
void for_rows(const LogitsChunk<T>& chunk, const Body& body) {
  parallel_for(0, chunk.rows, grain_rows(chunk.columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      T* x = chunk.logits + row * chunk.row_stride;
      if (chunk.softcap > 0.0f) {
        body(row, x, Constant<true>{});
      } else {
        body(row, x, Constant<false>{});
      }
    }
  });
}

template <class T>
LogitMap map_of(const LogitsChunk<T>& chunk) {
  return {chunk.scale, chunk.softcap};
}

template <class T>
void row_max_kernel(const LogitsRowMax<T>& args) {
  for_rows(args.chunk, [&](std::int64_t row, const T* x, auto capped) {
    args.row_max[row] = row_maximum<decltype(capped)::value>(map_of(args.chunk), x, args.chunk.columns);
  });
}

template <class T>
void row_sum_exp_kernel(const LogitsRowSumExp<T>& args) {
  constexpr std::int64_t kBlock = 2048;
  for_rows(args.chunk, [&](std::int64_t row, const T* x, auto capped) {
    double total = 0.0;
    for (std::int64_t begin = 0; begin < args.chunk.columns; begin += kBlock) {
      const std::int64_t block = begin + kBlock < args.chunk.columns ? kBlock : args.chunk.columns - begin;
      total += row_sum_exp<decltype(capped)::value>(map_of(args.chunk), x + begin, block, args.row_max[row]);
    }
    args.row_sum[row] = static_cast<float>(total);
  });
}

template <class T>
void target_kernel(const LogitsTarget<T>& args) {
  const LogitsChunk<T>& chunk = args.chunk;
  for_rows(chunk, [&](std::int64_t row, const T* x, auto capped) {
    const std::int64_t column = chunk.targets[row] - chunk.first_id;
    const bool here = chunk.targets[row] != kIgnoredLabel && column >= 0 && column < chunk.columns;
    args.target_logit[row] = here ? logit_at<decltype(capped)::value>(map_of(chunk), x + column) : 0.0f;
  });
}

template <class T>
void gradient_kernel(const LogitsGradient<T>& args) {
  const LogitsChunk<T>& chunk = args.chunk;
  for_rows(chunk, [&](std::int64_t row, T* x, auto capped) {
    if (chunk.targets[row] == kIgnoredLabel) return clear_row(x, chunk.columns);
    write_row_gradient<decltype(capped)::value>(map_of(chunk), x, chunk.columns, args.lse[row], chunk.targets[row] - chunk.first_id,
                                                args.gradient_scale);
  });
}

/// Loss of one row; its gradient is written while the row is still in the second-level cache.
template <bool capped, class T>
double cross_entropy_row(const CrossEntropy<T>& args, std::int64_t row, T* x) {
  const LogitsChunk<T>& chunk = args.chunk;
  if (chunk.targets[row] == kIgnoredLabel) {
    if (args.write_gradient) clear_row(x, chunk.columns);
    return 0.0;
  }
  const LogitMap map = map_of(chunk);
  const MaxAndSum parts = online_max_and_sum<capped>(map, x, chunk.columns);
  const double lse = static_cast<double>(parts.maximum) + std::log(parts.sum);
  const std::int64_t target = chunk.targets[row] - chunk.first_id;
  const bool valid = target >= 0 && target < chunk.columns;
  const double loss = valid ? lse - logit_at<capped>(map, x + target) : std::numeric_limits<double>::quiet_NaN();
  if (args.write_gradient) write_row_gradient<capped>(map, x, chunk.columns, static_cast<float>(lse), target, args.gradient_scale);
  return loss;
}

template <class T>
void cross_entropy_kernel(const CrossEntropySum<T>& sum) {
  const CrossEntropy<T>& args = sum.args;
  const ScratchOf<double> losses(args.chunk.rows);
  for_rows(args.chunk, [&](std::int64_t row, T* x, auto capped) { losses.data()[row] = cross_entropy_row<decltype(capped)::value>(args, row, x); });
  *sum.result = 0.0;
  for (std::int64_t row = 0; row < args.chunk.rows; ++row) *sum.result += losses.data()[row];
}

}  // namespace TESSERA_KERNEL_ISA

TESSERA_KERNEL(row_max_kernel, LogitsRowMax<float>)
TESSERA_KERNEL(row_max_kernel, LogitsRowMax<bfloat16>)
TESSERA_KERNEL(row_sum_exp_kernel, LogitsRowSumExp<float>)
TESSERA_KERNEL(row_sum_exp_kernel, LogitsRowSumExp<bfloat16>)
TESSERA_KERNEL(target_kernel, LogitsTarget<float>)
TESSERA_KERNEL(target_kernel, LogitsTarget<bfloat16>)
TESSERA_KERNEL(gradient_kernel, LogitsGradient<float>)
TESSERA_KERNEL(gradient_kernel, LogitsGradient<bfloat16>)
TESSERA_KERNEL(cross_entropy_kernel, CrossEntropySum<float>)
TESSERA_KERNEL(cross_entropy_kernel, CrossEntropySum<bfloat16>)

}  // namespace tessera::ops::cpu
