#include "tessera/optim/gradient_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/ops/cpu/elementwise.h"

namespace tessera::optim {
namespace {

bool takes_kernel(const at::Tensor& gradient) { return gradient.is_cpu() && gradient.scalar_type() == at::kFloat; }

double sum_of_squares(const at::Tensor& gradient) {
  if (takes_kernel(gradient)) return ops::cpu::sum_of_squares(gradient.data_ptr<float>(), gradient.numel());
  return gradient.to(at::kDouble).square().sum().item<double>();
}

std::int64_t first_nonfinite(const at::Tensor& gradient) {
  if (takes_kernel(gradient)) return ops::cpu::first_nonfinite(gradient.data_ptr<float>(), gradient.numel());
  const at::Tensor found = gradient.isfinite().logical_not().nonzero();
  return found.numel() == 0 ? -1 : found[0].item<std::int64_t>();
}

}  // namespace

double sum_of_squared_gradients(const model::ParameterStore& store) {
  double sum = 0.0;
  for (const model::FlatBuffer& buffer : store.buffers()) {
    if (!buffer.trainable) continue;
    for (const model::Extent& extent : buffer.owned)
      sum += sum_of_squares(buffer.gradient_shard.narrow(0, extent.begin - buffer.held.begin, extent.size()));
  }
  return sum;
}

double clip_coefficient(double norm, std::optional<double> max_norm) { return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1.0; }

std::string to_string(const NonFiniteGradient& found) {
  const char* kind = std::isnan(found.value) ? "NaN" : found.value > 0 ? "Inf" : "-Inf";
  return fmt::format("the gradient of {} is {} (element {} of {})", found.tensor, kind, found.element, found.parameter);
}

std::optional<NonFiniteGradient> find_nonfinite_gradient(const model::ParameterStore& store) {
  for (const model::PlacedPiece& placed : store.owned_pieces()) {
    const model::FlatBuffer& buffer = store.buffers()[placed.buffer];
    if (!buffer.trainable) continue;
    const at::Tensor gradient = buffer.gradient_shard.narrow(0, placed.begin - buffer.held.begin, placed.piece.num_rows() * placed.row_size);
    const std::int64_t element = first_nonfinite(gradient);
    if (element < 0) continue;
    return NonFiniteGradient{store.table().parameters[placed.parameter].name, placed.piece.tensor, placed.piece.row * placed.row_size + element,
                             gradient[element].item<double>()};
  }
  return std::nullopt;
}

}  // namespace tessera::optim
