#include "tessera/train/step.h"

#include <cmath>

#include "tessera/comm/values.h"
#include "tessera/data/collate.h"
#include "tessera/loss/cross_entropy.h"
#include "tessera/optim/gradient_norm.h"
#include "tessera/train/batch_tensors.h"
#include "tessera/train/not_finite.h"
#include "tessera/train/routing.h"

namespace tessera::train {
namespace {

/// Tokens and labels of the whole step, over all samples.
GradientResult count_tokens(comm::Communicator& group, std::span<const data::Batch> microbatches) {
  std::int64_t labels = 0, tokens = 0;
  for (const data::Batch& batch : microbatches) {
    labels += data::num_label_tokens(batch);
    tokens += data::num_tokens(batch);
  }
  const std::vector<std::int64_t> all = comm::sum(group, std::vector{labels, tokens});
  return {.loss = 0.0, .num_label_tokens = all[0], .num_tokens = all[1]};
}

/// One microbatch after another, forward and backward; the sum of their losses.
double run_in_turn(parallel::CausalLM& model, std::span<const data::Batch> microbatches, double scale, std::uint64_t step) {
  double sum = 0.0;
  for (const data::Batch& batch : microbatches) {
    model.engine->begin_microbatch(&batch == &microbatches.back());
    ops::Tape tape;
    sum += loss_of(tape, model, batch, scale, step).sum;
    tape.backward();
  }
  return sum;
}

/// The schedule is for a fixed number of microbatches: the short step at the end of an epoch is filled up.
double run_pipeline(parallel::CausalLM& model, std::span<const data::Batch> microbatches, double scale, std::uint64_t step) {
  std::vector<data::Batch> fillers;
  const auto num_microbatches = static_cast<std::size_t>(model.pipeline->plan().num_microbatches);
  if (microbatches.size() < num_microbatches) fillers.resize(num_microbatches - microbatches.size(), data::filler_batch({}));
  std::vector<parallel::ContextShare> shares = shares_of(model, microbatches);
  for (parallel::ContextShare& filler : shares_of(model, fillers)) shares.push_back(std::move(filler));
  return model.pipeline->train(shares, scale, step).sum;
}

/// accumulate_gradients, but that the loss is this rank's share of it: its sum may travel with others.
GradientResult accumulate(parallel::CausalLM& model, std::span<const data::Batch> microbatches, std::uint64_t step,
                          ExpertTraining* experts = nullptr) {
  model.engine->begin_step();
  GradientResult result = count_tokens(model.group(mesh::kDp), microbatches);
  if (experts != nullptr) begin_step(*experts, result.num_tokens);
  const double scale = result.num_label_tokens > 0 ? 1.0 / static_cast<double>(result.num_label_tokens) : 0.0;
  result.loss = scale * (model.pipeline ? run_pipeline(model, microbatches, scale, step) : run_in_turn(model, microbatches, scale, step));
  model.engine->end_step();
  return result;
}

}  // namespace

std::vector<parallel::ContextShare> shares_of(const parallel::CausalLM& model, std::span<const data::Batch> microbatches) {
  std::vector<parallel::ContextShare> shares;
  for (const data::Batch& batch : microbatches) {
    const BatchTensors whole = to_tensors(batch);
    shares.push_back(model.share_of(whole.inputs, whole.labels_BT));
  }
  return shares;
}

loss::LossSum loss_of(ops::Tape& tape, const parallel::CausalLM& model, const data::Batch& batch, double gradient_scale, std::uint64_t step) {
  const BatchTensors whole = to_tensors(batch);
  const parallel::ContextShare share = model.share_of(whole.inputs, whole.labels_BT);
  return loss::causal_language_model(tape, *model.model.decoder, share.inputs, share.labels_BT, gradient_scale, step);
}

GradientResult accumulate_gradients(parallel::CausalLM& model, std::span<const data::Batch> microbatches, std::uint64_t step) {
  GradientResult result = accumulate(model, microbatches, step);
  result.loss = comm::sum(model.group(mesh::kDpCp | mesh::Axis::PipelineParallel), std::vector{result.loss}).front();
  return result;
}

StepResult training_step(parallel::CausalLM& model, optim::Optimizer& optimizer, std::span<const data::Batch> microbatches, std::uint64_t step,
                         const optim::StepOptions& options, std::optional<double> max_norm, ExpertTraining* experts) {
  StepResult result{.gradients = accumulate(model, microbatches, step, experts)};
  // Each element has one owner, so every rank's share is added once. Ranks that share the layers have the same loss: the first of them gives it. In a
  // pipeline only the head's ranks have one.
  const double squares = optim::sum_of_squared_gradients(*model.model.store);
  const double loss = model.mesh->index(mesh::Axis::Tensor) == 0 ? result.gradients.loss : 0.0;
  const std::vector<double> sums = comm::sum(model.group(mesh::kWorld), std::vector{loss, squares});
  result.gradients.loss = sums[0];
  result.gradient_norm = std::sqrt(sums[1]);
  if (!std::isfinite(result.gradients.loss) || !std::isfinite(result.gradient_norm)) fail_not_finite(model, result, step);
  optim::StepOptions clipped = options;
  clipped.gradient_scale *= optim::clip_coefficient(result.gradient_norm, max_norm);
  result.update_began = std::chrono::steady_clock::now();
  optimizer.step(clipped);
  result.update_ended = std::chrono::steady_clock::now();
  if (experts != nullptr) {
    sum_over_ranks(*experts, model);
    if (experts->bias_update > 0.0) update_correction_biases(*model.model.store, experts->layers, experts->bias_update);
  }
  model.engine->weights_changed();
  return result;
}

}  // namespace tessera::train
