#include "tessera/parallel/pipeline_passes.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "tessera/core/error.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline/schedule.h"

namespace tessera::parallel {

PipelinePasses::PipelinePasses(PipelinePlan plan, const model::Decoder& decoder, model::ParameterStore& store, DataParallelEngine& engine,
                               pipeline::Channels channels)
    : plan_(std::move(plan)), decoder_(decoder), store_(store), engine_(engine), channels_(channels) {
  training_actions_ = pipeline::lower(plan_.schedule, plan_.stages.placement)[static_cast<std::size_t>(channels_.activations.rank())];
}

ops::LossSum PipelinePasses::train(std::span<const ContextShare> microbatches, double gradient_scale, std::uint64_t step) {
  TESSERA_ASSERT(static_cast<int>(microbatches.size()) == plan_.num_microbatches, "the schedule is for this number of microbatches");
  ops::LossSum sum;
  PassOptions options = losses(microbatches, gradient_scale, sum);
  options.step = step;
  run(training_actions_, options);
  return sum;
}

ops::LossSum PipelinePasses::evaluate(std::span<const ContextShare> microbatches) {
  ops::LossSum sum;
  forward_only(losses(microbatches, 0.0, sum));
  return sum;
}

PassOptions PipelinePasses::losses(std::span<const ContextShare> microbatches, double gradient_scale, ops::LossSum& sum) const {
  PassOptions options;
  options.microbatches = microbatches;
  options.head = [this, microbatches, gradient_scale, &sum](int microbatch, ops::Tape& tape, const ops::Variable& hidden_RD) {
    const at::Tensor& labels_BT = microbatches[static_cast<std::size_t>(microbatch)].labels_BT;
    const ops::LossSum loss = decoder_.loss(tape, hidden_RD, labels_BT.reshape({-1}), gradient_scale);
    sum.sum += loss.sum;
    sum.num_labels += loss.num_labels;
  };
  return options;
}

at::Tensor PipelinePasses::logits(const ContextShare& microbatch) {
  const std::int64_t num_tokens = microbatch.inputs.num_rows() * microbatch.inputs.length();
  const bool wide = store_.options().compute_dtype == DType::F64;
  at::Tensor logits = at::empty({num_tokens, decoder_.spec().vocab_size}, at::TensorOptions().dtype(wide ? at::kDouble : at::kFloat));
  PassOptions options;
  options.microbatches = {&microbatch, 1};
  options.head = [&](int, ops::Tape&, const ops::Variable& hidden_RD) { logits.copy_(decoder_.logits(hidden_RD.value, num_tokens)); };
  forward_only(std::move(options));
  channels_.activations.broadcast(logits, plan_.stages.placement.rank_of.back()).wait();
  return logits;
}

void PipelinePasses::forward_only(PassOptions options) {
  options.mode = ops::Tape::Mode::Inference;
  const pipeline::StagePlacement& placement = plan_.stages.placement;
  const auto schedule = pipeline::forward_schedule(placement, static_cast<int>(options.microbatches.size()));
  run(pipeline::lower(schedule, placement)[static_cast<std::size_t>(channels_.activations.rank())], options);
}

void PipelinePasses::run(const pipeline::ActionList& actions, const PassOptions& options) {
  pipeline::Stages stages;
  for (const int stage : plan_.stages.placement.stages_of(channels_.activations.rank()))
    stages[stage] = std::make_unique<DecoderStage>(decoder_, store_, engine_, plan_.stages.units[static_cast<std::size_t>(stage)], options);
  pipeline::execute(actions, plan_.stages.placement, channels_, stages);
}

}  // namespace tessera::parallel
