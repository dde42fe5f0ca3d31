#include "tessera/ops/tape.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>

#include <optional>
#include <utility>

#include "tessera/ops/activation_pool.h"

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

namespace {

/// A segment that backward runs again: when somebody asks for its output, or else when its gradient is there.
class Segment {
 public:
  Segment(const Variable& input, std::function<Variable(Tape&, const Variable&)> run)
      : input_{input.value, input.gradient, nullptr}, run_(std::move(run)) {}

  at::Tensor forward() const {
    Tape tape(Tape::Mode::Forward);
    return run_(tape, {input_.value, nullptr, nullptr}).value;
  }

  /// The input waits elsewhere until it is needed.
  void keep_input_in(ActivationPool& pool) { fetch_ = pool.keep(std::exchange(input_.value, at::Tensor())); }

  at::Tensor output() {
    if (fetch_) input_.value = std::exchange(fetch_, nullptr)();
    if (differentiated_) return forward();  // a deferred weight gradient
    if (!tape_) output_ = run_(tape_.emplace(), input_);
    return output_.value;
  }

  void backward(GradientSlot& gradient) {
    output();
    gradient.hand_over(*output_.gradient);
    output_ = {};
    differentiated_ = true;
    tape_->backward();
  }

 private:
  Variable input_;
  std::function<at::Tensor()> fetch_;
  std::function<Variable(Tape&, const Variable&)> run_;
  std::optional<Tape> tape_;
  Variable output_;
  bool differentiated_ = false;
};

/// `pool`: where the input waits; null: it stays.
Variable recorded_again(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment, ActivationPool* pool) {
  if (!tape.recording()) return segment(tape, input);
  const auto again = std::make_shared<Segment>(input, segment);
  Variable output = tape.variable(again->forward());
  if (pool != nullptr) again->keep_input_in(*pool);
  output.rebuild = [again] { return again->output(); };
  tape.record([again, slot = output.gradient] {
    if (!slot->empty()) again->backward(*slot);
  });
  return output;
}

}  // namespace

Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment) {
  return recorded_again(tape, input, segment, nullptr);
}

Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment, ActivationPool& pool) {
  return recorded_again(tape, input, segment, &pool);
}

}  // namespace tessera::ops
