#include "rates.h"
#include "tessera/ops/cpu/thin_gemm.h"

/// One decoding step's products: weights larger than any cache, so the rate is that of reading them. Arguments: rows, instruction set.
namespace tessera::ops::cpu::benchmarks {
namespace {

template <class T, class W>
void linear(benchmark::State& state) {
  constexpr std::int64_t inputs = 576, outputs = 4 * 49152;
  const std::int64_t rows = state.range(0);
  const auto x = numbers<T>(rows * inputs);
  const auto weight = numbers<W>(inputs * outputs);
  std::vector<T> y(static_cast<std::size_t>(rows * outputs));
  for (auto _ : state) {
    thin_gemm(ThinGemm<T, W>{rows, inputs, outputs, x.data(), inputs, weight.data(), nullptr, y.data(), outputs}, static_cast<Isa>(state.range(1)));
  }
  report_bytes(state, static_cast<double>(weight.size() * sizeof(W)));
}

void decoding_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"M", "isa"});
  for (std::int64_t rows : {1, 4, 8}) {
    for (Isa isa : available_isas()) benchmark->Args({rows, static_cast<std::int64_t>(isa)});
  }
}

BENCHMARK_TEMPLATE(linear, float, float)->Apply(decoding_shapes);
BENCHMARK_TEMPLATE(linear, bfloat16, bfloat16)->Apply(decoding_shapes);

}  // namespace
}  // namespace tessera::ops::cpu::benchmarks
