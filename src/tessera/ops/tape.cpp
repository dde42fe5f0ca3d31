#include "tessera/ops/tape.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>

#include <utility>

namespace tessera::ops {

void GradientSlot::add_owned(at::Tensor gradient) {
  if (empty()) {
    value_ = std::move(gradient);
    owned_ = true;
  } else {
    add_shared(gradient);
  }
}

void GradientSlot::add_shared(const at::Tensor& gradient) {
  if (empty()) {
    value_ = gradient;
    owned_ = false;
  } else if (owned_) {
    value_.add_(gradient);
  } else {
    value_ = at::add(value_, gradient);
    owned_ = true;
  }
}

at::Tensor GradientSlot::take() { return std::exchange(value_, at::Tensor()); }

void GradientSlot::hand_over(GradientSlot& other) {
  const bool owned = owned_;
  owned ? other.add_owned(take()) : other.add_shared(take());
}

at::Tensor GradientSlot::take_owned() {
  at::Tensor value = take();
  return value.defined() && !owned_ ? value.clone() : value;
}

Variable Tape::variable(at::Tensor value) const { return {std::move(value), recording() ? std::make_shared<GradientSlot>() : nullptr, nullptr}; }

void Tape::record(std::function<void()> backward) {
  if (recording()) closures_.push_back(std::move(backward));
}

void Tape::backward() {
  while (!closures_.empty()) {
    const std::function<void()> step = std::move(closures_.back());
    closures_.pop_back();
    step();
  }
}

Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment) {
  if (!tape.recording()) return segment(tape, input);
  Tape forward(Tape::Mode::Forward);
  Variable output = tape.variable(segment(forward, {input.value, nullptr, nullptr}).value);
  tape.record([input, segment, slot = output.gradient] {
    if (slot->empty()) return;
    Tape again;
    const Variable recomputed = segment(again, {input.value, input.gradient, nullptr});
    slot->hand_over(*recomputed.gradient);
    again.backward();
  });
  return output;
}

}  // namespace tessera::ops
