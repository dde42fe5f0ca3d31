#include "tessera/train/validation.h"

#include <optional>
#include <span>

#include "tessera/comm/values.h"
#include "tessera/core/terminal.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

/// This rank's share of the loss; in a pipeline nothing but at the head's ranks.
loss::LossSum evaluate(const parallel::CausalLM& model, std::span<const data::Batch> microbatches) {
  if (model.pipeline) return model.pipeline->evaluate(shares_of(model, microbatches));
  loss::LossSum sum;
  for (const data::Batch& microbatch : microbatches) {
    ops::Tape tape(ops::Tape::Mode::Inference);
    const loss::LossSum loss = loss_of(tape, model, microbatch, 0.0);
    sum.sum += loss.sum;
    sum.num_labels += loss.num_labels;
  }
  return sum;
}

}  // namespace

ValidationResult validate(const parallel::CausalLM& model, ValidationSet& set, const std::function<bool()>& stop) {
  set.loader->restore({});
  const std::int64_t batches = set.loader->steps_per_epoch();
  std::optional<ProgressBar> bar;
  if (model.mesh->rank() == 0) bar.emplace("validation " + set.name, static_cast<std::uint64_t>(batches));
  double sum = 0.0;
  ValidationResult result;
  for (std::int64_t batch = 0; batch < batches && !stop(); ++batch) {
    const loss::LossSum loss = evaluate(model, set.loader->next().microbatches);
    sum += loss.sum;
    result.num_label_tokens += loss.num_labels;
    if (bar) bar->advance(1);
  }
  comm::Communicator& ranks = model.group(mesh::kDpCp | mesh::Axis::PipelineParallel);
  result.num_label_tokens = comm::sum(ranks, std::vector{result.num_label_tokens}).front();
  sum = comm::sum(ranks, std::vector{sum}).front();
  if (result.num_label_tokens > 0) result.loss = sum / static_cast<double>(result.num_label_tokens);
  return result;
}

}  // namespace tessera::train
