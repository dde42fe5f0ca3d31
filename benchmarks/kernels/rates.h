#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/ops/cpu/bfloat16.h"

namespace tessera::ops::cpu::benchmarks {

/// Small random numbers of type T.
template <class T>
std::vector<T> numbers(std::int64_t size) {
  std::minstd_rand generator(1);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = static_cast<float>(generator()) / 2147483647.0f - 0.5f;
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    std::vector<T> converted;
    for (const float value : values) converted.push_back({float_to_bfloat16(value)});
    return converted;
  }
}

/// Useful floating-point operations or bytes that one iteration must move.
inline void report_flops(benchmark::State& state, double per_iteration) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::OneK::kIs1000);
}
inline void report_bytes(benchmark::State& state, double per_iteration) {
  state.counters["GB/s"] = benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::OneK::kIs1000);
}

}  // namespace tessera::ops::cpu::benchmarks
