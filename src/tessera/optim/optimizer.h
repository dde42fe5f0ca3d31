#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/sections/training.h"
#include "tessera/model/parameter_store.h"

namespace tessera::optim {

using config::OptimizerKind;

/// What one parameter's learning rate and weight decay are multiplied by.
struct Multipliers {
  double learning_rate = 1.0;
  double weight_decay = 1.0;

  bool operator==(const Multipliers&) const = default;
};

/// Parameters whose Hugging Face name the regular expression (ECMAScript) finds.
struct PatternGroup {
  std::string pattern;
  Multipliers multipliers;
  std::string where = {};  ///< "file:line", for messages
};

/// Which parameters get multipliers of their own. By default none: everything decays, as in torch.
struct GroupOptions {
  std::vector<PatternGroup> patterns = {};  ///< the first that matches counts
  bool decay_groups = false;                ///< biases and one-dimensional tensors (norms) do not decay, whatever the patterns say
};

struct AdamOptions {
  OptimizerKind kind = OptimizerKind::AdamW;
  std::array<double, 2> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  GroupOptions groups = {};
};

/// The numbers of one step.
struct StepOptions {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  ///< the clip coefficient
};

/// The running means of one buffer's gradients and of their squares: [held], zero at first, in the masters' dtype (fp32; fp64 in reference runs).
struct Moments {
  at::Tensor first;
  at::Tensor second;  ///< both undefined when the buffer is frozen
};

/// Adam or AdamW over the flat buffers of a ParameterStore, with torch.optim's formula (bias correction included). The store must outlive it.
/// fp32 buffers on a CPU take the fused kernel, which also refreshes the bf16 compute copy; others take the same formula written in ATen operators.
class Optimizer {
 public:
  /// Allocates the moments. UserError for a pattern that is not a regular expression.
  Optimizer(model::ParameterStore& store, AdamOptions options);

  /// One step of what this rank holds, from the accumulated (and reduced) gradients; the compute shards are up to date afterwards. A parameter that
  /// no operator used has the gradient zero (ParameterStore::finish_gradients comes first), and still decays. Frozen parameters are left alone.
  void step(const StepOptions& options);

  /// Steps so far: the exponent of the bias correction. Saved, and set on resume.
  std::int64_t num_steps() const { return num_steps_; }
  void set_num_steps(std::int64_t num_steps) { num_steps_ = num_steps; }

  const AdamOptions& options() const { return options_; }
  /// One per buffer of the store.
  const std::vector<Moments>& moments() const { return moments_; }
  /// Patterns that no parameter's name matched, for a warning.
  const std::vector<std::string>& unmatched_patterns() const { return unmatched_patterns_; }

 private:
  /// A run of held elements of one buffer that share their multipliers; `begin` counts from the first held one.
  struct Segment {
    std::size_t buffer = 0;
    std::int64_t begin = 0;
    std::int64_t size = 0;
    Multipliers multipliers;
  };
  void find_segments();
  void step_segment(const Segment& segment, const StepOptions& options);

  model::ParameterStore& store_;
  AdamOptions options_;
  std::int64_t num_steps_ = 0;
  std::vector<Moments> moments_;
  std::vector<Segment> segments_;
  std::vector<std::string> unmatched_patterns_;
};

}  // namespace tessera::optim
