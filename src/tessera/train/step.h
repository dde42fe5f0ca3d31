#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/loss/cross_entropy.h"
#include "tessera/optim/optimizer.h"
#include "tessera/parallel/causal_lm.h"

namespace tessera::train {

struct ExpertTraining;  // routing.h

/// What the forward and backward passes of one optimizer step give, over all ranks.
struct GradientResult {
  double loss = 0.0;  ///< mean over the step's valid labels; 0 without any
  std::int64_t num_label_tokens = 0;
  std::int64_t num_tokens = 0;  ///< padding left out
};

/// This rank's part of the loss of one microbatch, all of which every rank of tp and cp has: see loss::causal_language_model.
loss::LossSum loss_of(ops::Tape& tape, const parallel::CausalLM& model, const data::Batch& batch, double gradient_scale, std::uint64_t step = 0);

/// What this rank of cp has of microbatches that all of them have whole.
std::vector<parallel::ContextShare> shares_of(const parallel::CausalLM& model, std::span<const data::Batch> microbatches);

/// Runs this rank's microbatches forward and backward, in a pipeline all of them in one schedule. Afterwards the gradient shards are those of the
/// mean loss over all valid labels of the step, however they are spread over ranks and microbatches. All ranks have the same number of microbatches,
/// in a pipeline at most that of its schedule. `step` feeds dropout.
GradientResult accumulate_gradients(parallel::CausalLM& model, std::span<const data::Batch> microbatches, std::uint64_t step);

struct StepResult {
  GradientResult gradients;
  double gradient_norm = 0.0;                                                  ///< before clipping
  std::chrono::steady_clock::time_point update_began = {}, update_ended = {};  ///< of the optimizer
};

/// One optimizer step: gradients, their norm, clipping, the update. Failure, naming step and parameter, when loss or norm is not finite; the weights
/// are then as they were. `experts` (or null): what their tokens chose is counted, and their correction biases are updated after the weights.
StepResult training_step(parallel::CausalLM& model, optim::Optimizer& optimizer, std::span<const data::Batch> microbatches, std::uint64_t step,
                         const optim::StepOptions& options, std::optional<double> max_norm, ExpertTraining* experts = nullptr);

}  // namespace tessera::train
