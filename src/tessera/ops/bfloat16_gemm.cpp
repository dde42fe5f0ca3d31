#include "tessera/ops/bfloat16_gemm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <limits>

#include "tessera/core/clock.h"
#include "tessera/ops/cpu/elementwise.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

// Elements of a weight that are widened at once: 2 MiB in fp32.
constexpr std::int64_t kBlockElements = std::int64_t{512} << 10;

constexpr std::int64_t kProbeSize = 256;
constexpr int kProbeRepetitions = 5;
// Hardware lands near 0.3 to 0.6, emulation at 2 to 150: the middle of the gap, so that noise never flips the choice.
constexpr double kSlowerThanSingle = 1.3;

/// Seconds of one product of square matrices, the best of a few.
double probe_seconds(at::ScalarType type) {
  const at::Tensor a = at::ones({kProbeSize, kProbeSize}, type);
  at::Tensor c = at::mm(a, a);
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kProbeRepetitions; ++i) {
    const Clock::time_point start = Clock::now();
    at::mm_out(c, a, a);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace

bool has_bfloat16_gemm(const at::Tensor& tensor) {
  // Measured, not read from the processor's flags: libtorch's libraries may lack a kernel for an instruction that the processor has.
  static const bool cpu = probe_seconds(at::kBFloat16) < kSlowerThanSingle * probe_seconds(at::kFloat);
  return !tensor.device().is_cpu() || cpu;
}

at::Tensor widened_matmul(const at::Tensor& a_MK, const at::Tensor& b_KN, at::ScalarType output_type) {
  const std::int64_t rows = a_MK.size(0);
  at::Tensor output = at::empty({rows, b_KN.size(1)}, a_MK.options().dtype(output_type));
  // Widening b costs 4 bytes an element once; blocks of a this tall keep their copy in cache without starving the GEMM.
  const at::Tensor wide_b = b_KN.to(at::kFloat);
  for (std::int64_t row = 0; row < rows; row += kWidenedRows) {
    const std::int64_t count = std::min(kWidenedRows, rows - row);
    at::Tensor block = output.narrow(0, row, count);
    const at::Tensor wide_a = a_MK.narrow(0, row, count).to(at::kFloat);
    if (output_type == at::kFloat) {
      at::mm_out(block, wide_a, wide_b);
    } else {
      block.copy_(at::mm(wide_a, wide_b));
    }
  }
  return output;
}

void mixed_matmul_nt_out(at::Tensor& output_NO, const at::Tensor& a_NI, const at::Tensor& b_OI) {
  const std::int64_t outputs = b_OI.size(0), inputs = b_OI.size(1);
  const std::int64_t step = std::clamp<std::int64_t>(kBlockElements / std::max<std::int64_t>(inputs, 1), 1, std::max<std::int64_t>(outputs, 1));
  const at::Tensor wide = at::empty({step, inputs}, a_NI.options());
  for (std::int64_t first = 0; first < outputs; first += step) {
    const std::int64_t count = std::min(step, outputs - first);
    cpu::convert(kernel_data<const cpu::bfloat16>(b_OI) + first * inputs, wide.data_ptr<float>(), count * inputs);
    at::Tensor block = output_NO.narrow(1, first, count);
    at::mm_out(block, a_NI, wide.narrow(0, 0, count).t());
  }
}

}  // namespace tessera::ops
