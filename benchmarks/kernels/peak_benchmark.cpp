#include "rates.h"
#include "tessera/ops/cpu/elementwise.h"
#include "tessera/ops/cpu/parallel.h"

/// What the machine gives at most: fp32 multiply-adds from registers, and reading memory.
namespace tessera::ops::cpu::benchmarks {
namespace {

typedef float Wide __attribute__((vector_size(64)));
constexpr int kChains = 20;

#if defined(__x86_64__)
#define TESSERA_WIDEST __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define TESSERA_WIDEST
#endif

TESSERA_WIDEST float multiply_add(std::int64_t repeats) {
  Wide sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) sums[chain] = Wide{} + static_cast<float>(chain);  // all different: equal chains would be merged
  const Wide factor = Wide{} + 0.999f;
  for (std::int64_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (Wide& sum : sums) sum = sum * factor + factor;
  }
  float total = 0.0f;
#pragma GCC unroll 20
  for (const Wide& sum : sums) total += sum[0];
  return total;
}

void peak_fp32(benchmark::State& state) {
  constexpr std::int64_t kRepeats = 1000000;
  const int threads = omp_get_max_threads();
  for (auto _ : state) {
    parallel_for(0, threads, 1, [&](std::int64_t first, std::int64_t) { benchmark::DoNotOptimize(multiply_add(kRepeats + first)); });
  }
  report_flops(state, static_cast<double>(kRepeats) * kChains * 16 * 2 * threads);
}
BENCHMARK(peak_fp32)->UseRealTime();

void read_memory(benchmark::State& state) {
  const std::vector<float> values(std::size_t{1} << 28, 1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(first_nonfinite(values.data(), static_cast<std::int64_t>(values.size())));
  report_bytes(state, static_cast<double>(values.size() * sizeof(float)));
}
BENCHMARK(read_memory)->UseRealTime();

}  // namespace
}  // namespace tessera::ops::cpu::benchmarks
