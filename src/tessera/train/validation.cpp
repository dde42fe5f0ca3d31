#include "tessera/train/validation.h"

#include <optional>

#include "tessera/comm/values.h"
#include "tessera/core/terminal.h"
#include "tessera/train/step.h"

namespace tessera::train {

ValidationResult validate(const parallel::CausalLM& model, ValidationSet& set, const std::function<bool()>& stop) {
  set.loader->restore({});
  const std::int64_t batches = set.loader->steps_per_epoch();
  std::optional<ProgressBar> bar;
  if (model.mesh->rank() == 0) bar.emplace("validation " + set.name, static_cast<std::uint64_t>(batches));
  double sum = 0.0;
  ValidationResult result;
  for (std::int64_t batch = 0; batch < batches && !stop(); ++batch) {
    for (const data::Batch& microbatch : set.loader->next().microbatches) {
      ops::Tape tape(ops::Tape::Mode::Inference);
      const loss::LossSum loss = loss_of(tape, model, microbatch, 0.0);
      sum += loss.sum;
      result.num_label_tokens += loss.num_labels;
    }
    if (bar) bar->advance(1);
  }
  result.num_label_tokens = comm::sum(model.group(mesh::kDpCp), std::vector{result.num_label_tokens}).front();
  sum = comm::sum(model.group(mesh::kDpCp), std::vector{sum}).front();
  if (result.num_label_tokens > 0) result.loss = sum / static_cast<double>(result.num_label_tokens);
  return result;
}

}  // namespace tessera::train
