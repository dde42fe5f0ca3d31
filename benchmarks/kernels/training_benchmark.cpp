#include "rates.h"
#include "tessera/ops/cpu/activations.h"
#include "tessera/ops/cpu/cross_entropy.h"
#include "tessera/ops/cpu/elementwise.h"
#include "tessera/ops/cpu/embedding.h"
#include "tessera/ops/cpu/norms.h"
#include "tessera/ops/cpu/optimizer.h"
#include "tessera/ops/cpu/rope.h"

/// The kernels of one training step at 1024 tokens of SmolLM2-135M. Argument: instruction set. GB/s counts each operand once.
namespace tessera::ops::cpu::benchmarks {
namespace {

constexpr std::int64_t kTokens = 1024;
constexpr std::int64_t kHidden = 576;
constexpr std::int64_t kFeedForward = 1536;
constexpr std::int64_t kVocabulary = 49152;

void isas(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgName("isa");
  for (Isa isa : available_isas()) benchmark->Arg(static_cast<std::int64_t>(isa));
}
Isa isa_of(const benchmark::State& state) { return static_cast<Isa>(state.range(0)); }

template <class T>
void rms_norm(benchmark::State& state) {
  const auto x = numbers<T>(kTokens * kHidden), weight = numbers<T>(kHidden), dy = x;
  std::vector<T> y(x.size()), dx(x.size());
  std::vector<float> rstd(kTokens), dw(kHidden);
  const VectorLayout layout{kHidden, 0};
  for (auto _ : state) {
    rms_norm_forward(RmsNormForward<T>{kTokens, 1, kHidden, x.data(), layout, weight.data(), 0.0f, 1e-5f, y.data(), layout, rstd.data()},
                     isa_of(state));
    rms_norm_backward(RmsNormBackward<T>{kTokens, 1, kHidden, x.data(), layout, weight.data(), 0.0f, rstd.data(), dy.data(), layout, nullptr,
                                         dx.data(), layout, dw.data()},
                      isa_of(state));
  }
  report_bytes(state, 5.0 * static_cast<double>(x.size() * sizeof(T)));
}
BENCHMARK_TEMPLATE(rms_norm, float)->Apply(isas);
BENCHMARK_TEMPLATE(rms_norm, bfloat16)->Apply(isas);

template <class T>
void swiglu(benchmark::State& state) {
  const auto fused = numbers<T>(kTokens * 2 * kFeedForward), dy = numbers<T>(kTokens * kFeedForward);
  std::vector<T> y(dy.size()), gradient(fused.size());
  for (auto _ : state) {
    const T* up = fused.data() + kFeedForward;
    activation_forward(
        ActivationForward<T>{Activation::Silu, kTokens, kFeedForward, fused.data(), 2 * kFeedForward, up, 2 * kFeedForward, y.data(), kFeedForward},
        isa_of(state));
    activation_backward(
        ActivationBackward<T>{Activation::Silu, kTokens, kFeedForward, fused.data(), 2 * kFeedForward, up, 2 * kFeedForward, dy.data(), kFeedForward,
                              gradient.data(), 2 * kFeedForward, gradient.data() + kFeedForward, 2 * kFeedForward},
        isa_of(state));
  }
  report_bytes(state, 8.0 * static_cast<double>(dy.size() * sizeof(T)));
}
BENCHMARK_TEMPLATE(swiglu, float)->Apply(isas);
BENCHMARK_TEMPLATE(swiglu, bfloat16)->Apply(isas);

template <class T>
void rope_in_place(benchmark::State& state) {
  const std::vector<float> cosines(kTokens * 32, 0.6f), sines(kTokens * 32, 0.8f);  // a true rotation: repeated, it neither grows nor shrinks
  auto qkv = numbers<T>(kTokens * 960);
  Rope<T> args{kTokens, 12, 64, 64, false, cosines.data(), sines.data()};
  args.input = args.output = qkv.data();
  args.input_token_stride = args.output_token_stride = 960;
  args.input_head_stride = args.output_head_stride = 64;
  for (auto _ : state) rope(args, isa_of(state));
  report_bytes(state, 2.0 * kTokens * 12 * 64 * sizeof(T));
}
BENCHMARK_TEMPLATE(rope_in_place, float)->Apply(isas);
BENCHMARK_TEMPLATE(rope_in_place, bfloat16)->Apply(isas);

template <class T>
void cross_entropy_with_gradient(benchmark::State& state) {
  constexpr std::int64_t kRows = 128;
  const auto logits = numbers<T>(kRows * kVocabulary);
  auto work = logits;
  const std::vector<std::int64_t> targets(kRows, 5);
  CrossEntropy<T> args{{kRows, kVocabulary, work.data(), kVocabulary, 1.0f, 0.0f, targets.data()}};
  for (auto _ : state) benchmark::DoNotOptimize(cross_entropy(args, isa_of(state)));
  report_bytes(state, 2.0 * static_cast<double>(logits.size() * sizeof(T)));
}
BENCHMARK_TEMPLATE(cross_entropy_with_gradient, float)->Apply(isas);
BENCHMARK_TEMPLATE(cross_entropy_with_gradient, bfloat16)->Apply(isas);

void embedding_gradient(benchmark::State& state) {
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < kTokens; ++t) ids.push_back(t * 7919 % kVocabulary);
  const auto dy = numbers<float>(kTokens * kHidden);
  std::vector<float> table(kVocabulary * kHidden);
  EmbeddingBackward<float> args{kTokens, kHidden, kVocabulary, 0, ids.data(), dy.data(), 1.0f, table.data()};
  for (auto _ : state) embedding_backward(args, isa_of(state));
  report_bytes(state, 3.0 * static_cast<double>(dy.size() * sizeof(float)));
}
BENCHMARK(embedding_gradient)->Apply(isas);

void adam(benchmark::State& state) {
  constexpr std::int64_t kSize = std::int64_t{1} << 25;
  auto parameter = numbers<float>(kSize), first = parameter, second = std::vector<float>(kSize, 0.5f);
  const auto gradient = parameter;
  std::vector<bfloat16> copy(kSize);
  const AdamStep args{kSize, parameter.data(), first.data(), second.data(), gradient.data(), copy.data(), 1e-4};
  for (auto _ : state) adam_step(args, isa_of(state));
  report_bytes(state, 30.0 * kSize);
}
BENCHMARK(adam)->Apply(isas);

void squares(benchmark::State& state) {
  const auto values = numbers<float>(std::int64_t{1} << 26);
  for (auto _ : state) benchmark::DoNotOptimize(sum_of_squares(values.data(), static_cast<std::int64_t>(values.size()), isa_of(state)));
  report_bytes(state, 4.0 * static_cast<double>(values.size()));
}
BENCHMARK(squares)->Apply(isas);

void from_bfloat16(benchmark::State& state) {
  const auto values = numbers<bfloat16>(std::int64_t{1} << 25);
  std::vector<float> wide(values.size());
  for (auto _ : state) convert(values.data(), wide.data(), static_cast<std::int64_t>(values.size()), isa_of(state));
  report_bytes(state, 6.0 * static_cast<double>(values.size()));
}
BENCHMARK(from_bfloat16)->Apply(isas);

}  // namespace
}  // namespace tessera::ops::cpu::benchmarks
