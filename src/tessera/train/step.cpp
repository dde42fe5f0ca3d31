#include "tessera/train/step.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <cmath>

#include "tessera/core/error.h"
#include "tessera/loss/cross_entropy.h"
#include "tessera/optim/gradient_norm.h"
#include "tessera/train/batch_tensors.h"

namespace tessera::train {
namespace {

/// The first checkpoint tensor that holds a NaN or an infinity.
std::optional<std::string> nonfinite_weight(const model::ParameterStore& store) {
  for (std::size_t index = 0; index < store.table().parameters.size(); ++index)
    for (const model::Piece& piece : store.table().parameters[index].pieces)
      if (!at::isfinite(model::checkpoint_view(store.parameter(index).weight, piece)).all().item<bool>()) return piece.tensor;
  return std::nullopt;
}

/// Processors give NaN either sign, which says nothing.
double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

/// A bad weight spoils every gradient, so it is looked for first.
std::string cause_of_failure(const model::ParameterStore& store) {
  if (const auto tensor = nonfinite_weight(store)) return "the weight " + *tensor + " is not finite";
  if (const auto gradient = optim::find_nonfinite_gradient(store)) return optim::to_string(*gradient);
  return "every gradient element is finite, their norm overflows";
}

/// Says what is not finite, and where it came from. Steps are counted from 1, as in the log.
[[noreturn]] void fail_not_finite(const model::CausalLM& model, const StepResult& result, std::uint64_t step) {
  const std::string cause = cause_of_failure(*model.store);
  throw Failure(
      {fmt::format("step {}", step + 1),
       fmt::format("loss {} and gradient norm {}: {}", without_sign_of_nan(result.gradients.loss), without_sign_of_nan(result.gradient_norm), cause),
       "training stops before a step that would spoil the weights",
       "resume from the last checkpoint with a lower learning rate, or look at the data of this step"});
}

}  // namespace

GradientResult accumulate_gradients(model::CausalLM& model, std::span<const data::Batch> microbatches, std::uint64_t step) {
  GradientResult result;
  for (const data::Batch& batch : microbatches) {
    result.num_label_tokens += data::num_label_tokens(batch);
    result.num_tokens += data::num_tokens(batch);
  }
  const double scale = result.num_label_tokens > 0 ? 1.0 / static_cast<double>(result.num_label_tokens) : 0.0;
  model.store->start_gradients();
  for (const data::Batch& batch : microbatches) {
    const BatchTensors tensors = to_tensors(batch);
    ops::Tape tape;
    result.loss += scale * loss::causal_language_model(tape, *model.decoder, tensors.inputs, tensors.labels_BT, scale, step).sum;
    tape.backward();
  }
  model.store->finish_gradients();
  return result;
}

StepResult training_step(model::CausalLM& model, optim::Optimizer& optimizer, std::span<const data::Batch> microbatches, std::uint64_t step,
                         const optim::StepOptions& options, std::optional<double> max_norm) {
  StepResult result{accumulate_gradients(model, microbatches, step), 0.0};
  result.gradient_norm = optim::gradient_norm(*model.store);
  if (!std::isfinite(result.gradients.loss) || !std::isfinite(result.gradient_norm)) fail_not_finite(model, result, step);
  optim::StepOptions clipped = options;
  clipped.gradient_scale *= optim::clip_coefficient(result.gradient_norm, max_norm);
  optimizer.step(clipped);
  return result;
}

}  // namespace tessera::train
