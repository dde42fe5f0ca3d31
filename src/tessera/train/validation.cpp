#include "tessera/train/validation.h"

#include "tessera/core/terminal.h"
#include "tessera/loss/cross_entropy.h"
#include "tessera/train/batch_tensors.h"

namespace tessera::train {

ValidationResult validate(const model::CausalLM& model, ValidationSet& set, const std::function<bool()>& stop) {
  set.loader->restore({});
  const std::int64_t batches = set.loader->steps_per_epoch();
  ProgressBar bar("validation " + set.name, static_cast<std::uint64_t>(batches));
  double sum = 0.0;
  ValidationResult result;
  for (std::int64_t batch = 0; batch < batches && !stop(); ++batch) {
    for (const data::Batch& microbatch : set.loader->next().microbatches) {
      const BatchTensors tensors = to_tensors(microbatch);
      ops::Tape tape(ops::Tape::Mode::Inference);
      const loss::LossSum loss = loss::causal_language_model(tape, *model.decoder, tensors.inputs, tensors.labels_BT, 0.0);
      sum += loss.sum;
      result.num_label_tokens += loss.num_labels;
    }
    bar.advance(1);
  }
  if (result.num_label_tokens > 0) result.loss = sum / static_cast<double>(result.num_label_tokens);
  return result;
}

}  // namespace tessera::train
