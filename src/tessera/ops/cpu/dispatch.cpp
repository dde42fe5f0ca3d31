#include "tessera/ops/cpu/dispatch.h"

#include "tessera/ops/cpu/activations.h"
#include "tessera/ops/cpu/arguments.h"
#include "tessera/ops/cpu/attention.h"
#include "tessera/ops/cpu/cross_entropy.h"
#include "tessera/ops/cpu/dropout.h"
#include "tessera/ops/cpu/elementwise.h"
#include "tessera/ops/cpu/embedding.h"
#include "tessera/ops/cpu/expert_gemm.h"
#include "tessera/ops/cpu/norms.h"
#include "tessera/ops/cpu/optimizer.h"
#include "tessera/ops/cpu/rope.h"
#include "tessera/ops/cpu/routed_rows.h"
#include "tessera/ops/cpu/thin_gemm.h"

#ifdef TESSERA_X86_KERNELS
#define TESSERA_DECLARE(...)                                             \
  template <>                                                            \
  void Kernel<Isa::Baseline, __VA_ARGS__>::run(const __VA_ARGS__& args); \
  template <>                                                            \
  void Kernel<Isa::Avx2, __VA_ARGS__>::run(const __VA_ARGS__& args);     \
  template <>                                                            \
  void Kernel<Isa::Avx512, __VA_ARGS__>::run(const __VA_ARGS__& args);
#else
#define TESSERA_DECLARE(...) \
  template <>                \
  void Kernel<Isa::Baseline, __VA_ARGS__>::run(const __VA_ARGS__& args);
#endif

namespace tessera::ops::cpu {
namespace {

template <class Args>
void dispatch(const Args& args, Isa isa) {
#ifdef TESSERA_X86_KERNELS
  if (isa == Isa::Avx512) return Kernel<Isa::Avx512, Args>::run(args);
  if (isa == Isa::Avx2) return Kernel<Isa::Avx2, Args>::run(args);
#endif
  Kernel<Isa::Baseline, Args>::run(args);
}

}  // namespace

/// The public function of an argument struct with one element type.
#define TESSERA_PUBLIC(function, Args)             \
  TESSERA_DECLARE(Args<float>)                     \
  TESSERA_DECLARE(Args<bfloat16>)                  \
  template <class T>                               \
  void function(const Args<T>& args, Isa isa) {    \
    dispatch(args, isa);                           \
  }                                                \
  template void function(const Args<float>&, Isa); \
  template void function(const Args<bfloat16>&, Isa);

/// The same with two, for the pairs (float, float), (bfloat16, bfloat16) and one mixed pair.
#define TESSERA_PUBLIC_PAIRS(function, Args, First, Second)     \
  TESSERA_DECLARE(Args<float, float>)                           \
  TESSERA_DECLARE(Args<bfloat16, bfloat16>)                     \
  TESSERA_DECLARE(Args<First, Second>)                          \
  template <class T, class U>                                   \
  void function(const Args<T, U>& args, Isa isa) {              \
    dispatch(args, isa);                                        \
  }                                                             \
  template void function(const Args<float, float>&, Isa);       \
  template void function(const Args<bfloat16, bfloat16>&, Isa); \
  template void function(const Args<First, Second>&, Isa);

TESSERA_PUBLIC(rms_norm_forward, RmsNormForward)
TESSERA_PUBLIC(rms_norm_backward, RmsNormBackward)
TESSERA_PUBLIC(layer_norm_forward, LayerNormForward)
TESSERA_PUBLIC(layer_norm_backward, LayerNormBackward)
TESSERA_PUBLIC(rope, Rope)
TESSERA_PUBLIC(activation_forward, ActivationForward)
TESSERA_PUBLIC(activation_backward, ActivationBackward)
TESSERA_PUBLIC(embedding_forward, EmbeddingForward)
TESSERA_PUBLIC(embedding_backward, EmbeddingBackward)
TESSERA_PUBLIC(dropout_add, DropoutAdd)
TESSERA_PUBLIC(sum_of_places, SumOfPlaces)
TESSERA_PUBLIC(rows_to_places, RowsToPlaces)
TESSERA_PUBLIC(decode_attention, DecodeAttention)
TESSERA_PUBLIC_PAIRS(attention_forward, AttentionForward, bfloat16, float)
TESSERA_PUBLIC_PAIRS(attention_backward, AttentionBackward, bfloat16, float)
TESSERA_PUBLIC_PAIRS(thin_gemm, ThinGemm, float, bfloat16)

TESSERA_DECLARE(AdamStep)
void adam_step(const AdamStep& args, Isa isa) { dispatch(args, isa); }

TESSERA_DECLARE(ExpertForward)
TESSERA_DECLARE(ExpertInputGradient)
TESSERA_DECLARE(ExpertWeightGradient)
void expert_forward(const ExpertForward& args, Isa isa) { dispatch(args, isa); }
void expert_input_gradient(const ExpertInputGradient& args, Isa isa) { dispatch(args, isa); }
void expert_weight_gradient(const ExpertWeightGradient& args, Isa isa) { dispatch(args, isa); }

TESSERA_DECLARE(SumOfSquares)
TESSERA_DECLARE(FirstNonfinite)
TESSERA_DECLARE(Convert)
TESSERA_DECLARE(ColumnSums<float>)
TESSERA_DECLARE(ColumnSums<bfloat16>)
TESSERA_DECLARE(LogitsRowMax<float>)
TESSERA_DECLARE(LogitsRowMax<bfloat16>)
TESSERA_DECLARE(LogitsRowSumExp<float>)
TESSERA_DECLARE(LogitsRowSumExp<bfloat16>)
TESSERA_DECLARE(LogitsTarget<float>)
TESSERA_DECLARE(LogitsTarget<bfloat16>)
TESSERA_DECLARE(LogitsGradient<float>)
TESSERA_DECLARE(LogitsGradient<bfloat16>)
TESSERA_DECLARE(CrossEntropySum<float>)
TESSERA_DECLARE(CrossEntropySum<bfloat16>)

double sum_of_squares(const float* values, std::int64_t size, Isa isa) {
  double result = 0.0;
  dispatch(SumOfSquares{values, size, &result}, isa);
  return result;
}
std::int64_t first_nonfinite(const float* values, std::int64_t size, Isa isa) {
  std::int64_t result = -1;
  dispatch(FirstNonfinite{values, size, &result}, isa);
  return result;
}
void convert(const bfloat16* input, float* output, std::int64_t size, Isa isa) { dispatch(Convert{input, output, size}, isa); }
void add_column_sums(const float* input, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, float* total, Isa isa) {
  dispatch(ColumnSums<float>{input, rows, columns, row_stride, total}, isa);
}
void add_column_sums(const bfloat16* input, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, float* total, Isa isa) {
  dispatch(ColumnSums<bfloat16>{input, rows, columns, row_stride, total}, isa);
}

template <class T>
void logits_row_max(const LogitsChunk<T>& chunk, float* row_max, Isa isa) {
  dispatch(LogitsRowMax<T>{chunk, row_max}, isa);
}
template <class T>
void logits_row_sum_exp(const LogitsChunk<T>& chunk, const float* row_max, float* row_sum, Isa isa) {
  dispatch(LogitsRowSumExp<T>{chunk, row_max, row_sum}, isa);
}
template <class T>
void logits_target(const LogitsChunk<T>& chunk, float* target_logit, Isa isa) {
  dispatch(LogitsTarget<T>{chunk, target_logit}, isa);
}
template <class T>
void logits_gradient(const LogitsChunk<T>& chunk, const float* lse, float gradient_scale, Isa isa) {
  dispatch(LogitsGradient<T>{chunk, lse, gradient_scale}, isa);
}
template <class T>
double cross_entropy(const CrossEntropy<T>& args, Isa isa) {
  double result = 0.0;
  dispatch(CrossEntropySum<T>{args, &result}, isa);
  return result;
}

template void logits_row_max(const LogitsChunk<float>&, float*, Isa);
template void logits_row_max(const LogitsChunk<bfloat16>&, float*, Isa);
template void logits_row_sum_exp(const LogitsChunk<float>&, const float*, float*, Isa);
template void logits_row_sum_exp(const LogitsChunk<bfloat16>&, const float*, float*, Isa);
template void logits_target(const LogitsChunk<float>&, float*, Isa);
template void logits_target(const LogitsChunk<bfloat16>&, float*, Isa);
template void logits_gradient(const LogitsChunk<float>&, const float*, float, Isa);
template void logits_gradient(const LogitsChunk<bfloat16>&, const float*, float, Isa);
template double cross_entropy(const CrossEntropy<float>&, Isa);
template double cross_entropy(const CrossEntropy<bfloat16>&, Isa);

}  // namespace tessera::ops::cpu
