#include "tessera/parallel/decoder_stage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"

namespace tessera::parallel {

/// Of one microbatch.
struct DecoderStage::Passes {
  explicit Passes(ops::Tape::Mode mode) : tape(mode) {}
  ops::Tape tape;
  std::shared_ptr<ops::GradientSlot> input, output;
  ops::WeightGradientQueue put_off;
};

DecoderStage::DecoderStage(const model::Decoder& decoder, model::ParameterStore& store, DataParallelEngine& engine, model::UnitRange units,
                           PassOptions options)
    : decoder_(decoder),
      engine_(engine),
      units_(units),
      options_(std::move(options)),
      is_first_(units.first == 0),
      is_last_(units.end == static_cast<int>(store.table().num_units)),
      activation_(at::TensorOptions().dtype(model::scalar_type(store.options().compute_dtype))),
      passes_(options_.microbatches.size()) {
  for (std::size_t index = 0; index < store.table().parameters.size(); ++index) {
    const std::int64_t unit = store.table().parameters[index].unit;
    if (unit >= units.first && unit < units.end) parameters_.push_back(&store.parameter(index));
  }
}

DecoderStage::~DecoderStage() = default;

at::Tensor DecoderStage::message(int microbatch) const {
  const model::Inputs& inputs = options_.microbatches[static_cast<std::size_t>(microbatch)].inputs;
  return at::empty({decoder_.num_residual_tokens(inputs), decoder_.spec().hidden_size}, activation_);
}

at::Tensor DecoderStage::forward(int microbatch, const at::Tensor& input) {
  auto passes = std::make_unique<Passes>(options_.mode);
  ops::Tape& tape = passes->tape;
  const model::Inputs& inputs = options_.microbatches[static_cast<std::size_t>(microbatch)].inputs;
  const ops::Variable taken = is_first_ ? ops::Variable{} : tape.variable(input);
  ops::Variable output = decoder_.run_units(tape, inputs, {units_.first, is_last_ ? units_.end - 1 : units_.end}, taken, options_.step);
  if (is_last_) {
    model::Decoder::Hidden hidden = decoder_.enter_head(tape, output);
    output = {};
    options_.head(microbatch, tape, hidden.states);
    hidden.head_unit.leave();
  }
  if (!tape.recording()) return output.value;
  passes->input = taken.gradient;
  passes->output = output.gradient;
  passes_[static_cast<std::size_t>(microbatch)] = std::move(passes);
  return output.value;
}

at::Tensor DecoderStage::backward(int microbatch, at::Tensor output_gradient, bool put_off_weights) {
  std::unique_ptr<Passes>& passes = passes_[static_cast<std::size_t>(microbatch)];
  if (!is_last_) passes->output->add_owned(std::move(output_gradient));
  const bool puts_off = put_off_weights && decoder_.options().activation_checkpointing != model::ActivationCheckpointing::Full;
  if (puts_off) set_queue(&passes->put_off);
  passes->tape.backward();
  if (puts_off) set_queue(nullptr);
  at::Tensor gradient;
  if (!is_first_) gradient = passes->input->take_owned();
  // Without any label no gradient comes back.
  if (!is_first_ && !gradient.defined()) gradient = message(microbatch).zero_();
  if (!put_off_weights) passes.reset();
  return gradient;
}

void DecoderStage::weight_gradients(int microbatch) {
  std::unique_ptr<Passes>& passes = passes_[static_cast<std::size_t>(microbatch)];
  if (!passes->put_off.empty()) {
    engine_.before_weight_gradients(units_);
    passes->put_off.drain();
    engine_.after_weight_gradients(units_);
  }
  passes.reset();
  if (free_later_ && !has_put_off()) engine_.free(units_);
}

void DecoderStage::free() {
  free_later_ = has_put_off();
  if (!free_later_) engine_.free(units_);
}

bool DecoderStage::has_put_off() const {
  return std::ranges::any_of(passes_, [](const auto& passes) { return passes != nullptr && !passes->put_off.empty(); });
}

void DecoderStage::set_queue(ops::WeightGradientQueue* queue) {
  for (ops::Parameter* parameter : parameters_) parameter->queue = queue;
}

}  // namespace tessera::parallel
