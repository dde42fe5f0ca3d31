#include "tessera/ops/cpu/attention.h"

#include <cmath>

#include "rates.h"

/// Causal self-attention in the shape of SmolLM2-135M: 9 heads, 3 key heads, 64 wide. Arguments: tokens, instruction set.
/// Only the visible half of the products counts as useful work.
namespace tessera::ops::cpu::benchmarks {
namespace {

constexpr std::int64_t kHeads = 9;
constexpr std::int64_t kKeyHeads = 3;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kRow = (kHeads + 2 * kKeyHeads) * kHeadDim;  // of the fused projection

AttentionShape shape_of(std::int64_t tokens) {
  AttentionShape shape;
  shape.batch = std::max<std::int64_t>(1, 1024 / tokens);
  shape.query_length = shape.key_length = tokens;
  shape.heads = kHeads;
  shape.key_heads = kKeyHeads;
  shape.head_dim = shape.value_dim = kHeadDim;
  shape.scale = 0.125f;
  return shape;
}

double visible_pairs(const AttentionShape& shape) {
  const auto tokens = static_cast<double>(shape.query_length);
  return static_cast<double>(shape.batch * shape.heads) * tokens * (tokens + 1) / 2;
}

template <class T>
struct Tensors {
  explicit Tensors(const AttentionShape& shape)
      : qkv(numbers<T>(shape.batch * shape.query_length * kRow)),
        output(numbers<T>(shape.batch * shape.query_length * kHeads * kHeadDim)),
        output_gradient(output),
        lse(static_cast<std::size_t>(shape.batch * shape.heads * shape.query_length)),
        row{shape.query_length * kRow, kRow, kHeadDim},
        out{shape.query_length * kHeads * kHeadDim, kHeads * kHeadDim, kHeadDim} {}

  AttentionForward<T> forward(const AttentionShape& shape) {
    const T* base = qkv.data();
    return {shape, base, row, base + kHeads * kHeadDim, row, base + (kHeads + kKeyHeads) * kHeadDim, row, output.data(), out, lse.data()};
  }

  std::vector<T> qkv;
  std::vector<T> output;
  std::vector<T> output_gradient;
  std::vector<float> lse;
  HeadStrides row;
  HeadStrides out;
};

template <class T>
void attention_forward_benchmark(benchmark::State& state) {
  const AttentionShape shape = shape_of(state.range(0));
  Tensors<T> tensors(shape);
  for (auto _ : state) attention_forward(tensors.forward(shape), static_cast<Isa>(state.range(1)));
  report_flops(state, visible_pairs(shape) * 4 * kHeadDim);
}

template <class T>
void attention_backward_benchmark(benchmark::State& state) {
  const AttentionShape shape = shape_of(state.range(0));
  Tensors<T> tensors(shape);
  const AttentionForward<T> forward = tensors.forward(shape);
  attention_forward(forward);
  std::vector<T> gradient(tensors.qkv.size());
  AttentionBackward<T> args{shape,
                            forward.query,
                            tensors.row,
                            forward.key,
                            tensors.row,
                            forward.value,
                            tensors.row,
                            forward.output,
                            tensors.out,
                            forward.lse,
                            tensors.output_gradient.data(),
                            tensors.out};
  args.query_gradient = gradient.data();
  args.key_gradient = gradient.data() + kHeads * kHeadDim;
  args.value_gradient = gradient.data() + (kHeads + kKeyHeads) * kHeadDim;
  args.query_gradient_strides = args.key_gradient_strides = args.value_gradient_strides = tensors.row;
  for (auto _ : state) attention_backward(args, static_cast<Isa>(state.range(1)));
  report_flops(state, visible_pairs(shape) * 10 * kHeadDim);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"T", "isa"});
  for (std::int64_t tokens : {256, 1024, 4096}) {
    for (Isa isa : available_isas()) benchmark->Args({tokens, static_cast<std::int64_t>(isa)});
  }
}

BENCHMARK_TEMPLATE(attention_forward_benchmark, float)->Apply(shapes);
BENCHMARK_TEMPLATE(attention_forward_benchmark, bfloat16)->Apply(shapes);
BENCHMARK_TEMPLATE(attention_backward_benchmark, float)->Apply(shapes);
BENCHMARK_TEMPLATE(attention_backward_benchmark, bfloat16)->Apply(shapes);

template <class T>
void decode_attention_benchmark(benchmark::State& state) {
  const std::int64_t keys = state.range(0);
  const std::vector<std::int64_t> lengths{keys};
  const std::vector<T> cache = numbers<T>(2 * keys * kKeyHeads * kHeadDim);
  std::vector<T> query = numbers<T>(kHeads * kHeadDim);
  std::vector<T> output(query.size());
  DecodeAttention<T> args;
  args.batch = 1;
  args.heads = kHeads;
  args.key_heads = kKeyHeads;
  args.head_dim = args.value_dim = kHeadDim;
  args.scale = 0.125f;
  args.lengths = lengths.data();
  args.query = query.data();
  args.query_strides = args.output_strides = {0, 0, kHeadDim};
  args.key = cache.data();
  args.value = cache.data() + keys * kKeyHeads * kHeadDim;
  args.key_strides = args.value_strides = {0, kKeyHeads * kHeadDim, kHeadDim};
  args.output = output.data();
  for (auto _ : state) decode_attention(args);
  report_bytes(state, static_cast<double>(cache.size() * sizeof(T)));
}
BENCHMARK_TEMPLATE(decode_attention_benchmark, float)->UseRealTime()->Arg(256)->Arg(2048)->Arg(65536);
BENCHMARK_TEMPLATE(decode_attention_benchmark, bfloat16)->UseRealTime()->Arg(256)->Arg(2048)->Arg(65536);

}  // namespace
}  // namespace tessera::ops::cpu::benchmarks
