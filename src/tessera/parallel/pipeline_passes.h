#pragma once

#include <cstdint>
#include <span>

#include "tessera/model/decoder.h"
#include "tessera/parallel/context/split.h"
#include "tessera/parallel/data/engine.h"
#include "tessera/parallel/decoder_stage.h"
#include "tessera/parallel/pipeline/execute/executor.h"
#include "tessera/parallel/pipeline_plan.h"

namespace tessera::parallel {

/// Runs whole steps through the stages of a model. All ranks of pp, which have the same microbatches, make the same calls.
class PipelinePasses {
 public:
  /// All must outlive it; the engine is behind the decoder's unit hooks.
  PipelinePasses(PipelinePlan plan, const model::Decoder& decoder, model::ParameterStore& store, DataParallelEngine& engine,
                 pipeline::Channels channels);

  const PipelinePlan& plan() const { return plan_; }
  /// Forward and backward of `plan().num_microbatches` microbatches, between the engine's begin_step and end_step. The sum of their losses at the
  /// rank that has the head, nothing elsewhere; gradients are those of `gradient_scale` times it.
  ops::LossSum train(std::span<const ContextShare> microbatches, double gradient_scale, std::uint64_t step);
  /// Forward alone, of any number of microbatches, without dropout.
  ops::LossSum evaluate(std::span<const ContextShare> microbatches);
  /// The logits of all tokens that this rank of cp has of one microbatch, [N, V], at every rank of pp.
  at::Tensor logits(const ContextShare& microbatch);

 private:
  void run(const pipeline::ActionList& actions, const PassOptions& options);
  void forward_only(PassOptions options);
  PassOptions losses(std::span<const ContextShare> microbatches, double gradient_scale, ops::LossSum& sum) const;

  PipelinePlan plan_;
  const model::Decoder& decoder_;
  model::ParameterStore& store_;
  DataParallelEngine& engine_;
  pipeline::Channels channels_;
  pipeline::ActionList training_actions_;  ///< of this rank, lowered
};

}  // namespace tessera::parallel
