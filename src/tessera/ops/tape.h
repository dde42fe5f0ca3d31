#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace tessera::ops {

/// The gradient of one activation while backward runs: empty, then the sum of what its consumers delivered.
class GradientSlot {
 public:
  /// Adds a gradient that the caller hands over (nothing else keeps or changes it).
  void add_owned(at::Tensor gradient);
  /// Adds a gradient that others may still read: it is never changed in place.
  void add_shared(const at::Tensor& gradient);
  bool empty() const { return !value_.defined(); }
  const at::Tensor& value() const { return value_; }
  /// Whether the gradient is here and nobody else reads it, so that its holder may change it in place.
  bool owned() const { return !empty() && owned_; }
  /// Hands the gradient over and leaves the slot empty. It may be read, not changed.
  at::Tensor take();
  /// The same, but a tensor the caller may change: copied first when others may still read it. Undefined when empty.
  at::Tensor take_owned();
  /// Moves the gradient, which must be there, to another slot.
  void hand_over(GradientSlot& other);

 private:
  at::Tensor value_;
  bool owned_ = false;
};

/// What an operator keeps for its backward: a tensor, or the means to compute it again cheaply (a norm's or an activation's output).
class Saved {
 public:
  Saved() = default;
  explicit Saved(at::Tensor value) : value_(std::move(value)) {}
  explicit Saved(std::function<at::Tensor()> rebuild) : rebuild_(std::move(rebuild)) {}
  at::Tensor get() const { return rebuild_ ? rebuild_() : value_; }

 private:
  at::Tensor value_;
  std::function<at::Tensor()> rebuild_;
};

/// An activation: its value, and the slot its gradient arrives in (null when nothing upstream needs one, e.g. in evaluation).
/// Copies share both. The value lives only as long as somebody holds it; backward closures keep what they need and no more.
struct Variable {
  at::Tensor value;
  std::shared_ptr<GradientSlot> gradient;
  std::function<at::Tensor()> rebuild;  ///< set by operators whose output is cheap to compute again

  Saved save() const { return rebuild ? Saved(rebuild) : Saved(value); }
};

/// Reverse-mode differentiation as a list: each operator appends the closure that turns its output's gradient into its inputs' gradients
/// and its parameters' gradients; backward() runs the list from the end and forgets each closure as it goes, which frees what it saved.
/// One tape belongs to one forward pass (one microbatch on one stage).
///
/// Why not libtorch's autograd: gradients go straight into flat buffers, weights may be freed between uses, weight gradients may be
/// deferred, and frozen inputs need no anchors. All of it is explicit here.
class Tape {
 public:
  /// Record: training. Forward: a training pass whose backward comes from running it again: it drops as training does, but records nothing.
  enum class Mode { Record, Forward, Inference };
  explicit Tape(Mode mode = Mode::Record) : mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return mode_ == Mode::Record; }
  /// Whether dropout happens.
  bool training() const { return mode_ != Mode::Inference; }
  /// The output of an operator: with a gradient slot exactly when this tape records.
  Variable variable(at::Tensor value) const;
  /// Appends a backward closure (ignored in inference).
  void record(std::function<void()> backward);
  /// Runs every closure from last to first; the tape is empty afterwards. Seed the loss's slot first.
  void backward();
  std::size_t size() const { return closures_.size(); }

 private:
  Mode mode_;
  std::vector<std::function<void()>> closures_;
};

/// Activation checkpointing: runs `segment` without recording, keeps only its input, and runs it again, recorded, when backward reaches it or the
/// operator after it, which need not keep the output either: once for both (once more for weight gradients that are deferred past it). On a tape
/// that does not record it is `segment` alone.
/// `segment` must compute the same values both times (dropout is counter-based, so it does).
Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment);

}  // namespace tessera::ops
