#include "tessera/train/matmul_peak.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "tessera/core/clock.h"
#include "tessera/ops/bfloat16_gemm.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kSize = 1024;
constexpr int kRepetitions = 8;

}  // namespace

double measured_matmul_peak(at::ScalarType dtype) {
  at::Tensor a = at::ones({kSize, kSize}, dtype);
  if (!ops::has_bfloat16_gemm(a) && dtype == at::kBFloat16) a = a.to(at::kFloat);  // as the operators do
  at::Tensor c = at::mm(a, a);
  double best = 1e30;
  for (int i = 0; i < kRepetitions; ++i) {
    const Clock::time_point start = Clock::now();
    at::mm_out(c, a, a);
    best = std::min(best, seconds_since(start));
  }
  return 2.0 * static_cast<double>(kSize * kSize * kSize) / best;
}

}  // namespace tessera::train
