#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/model/decoder.h"
#include "tessera/parallel/context/split.h"
#include "tessera/parallel/data/engine.h"
#include "tessera/parallel/pipeline/execute/stage.h"

namespace tessera::parallel {

/// What a step's passes have in common.
struct PassOptions {
  ops::Tape::Mode mode = ops::Tape::Mode::Record;
  std::uint64_t step = 0;                      ///< feeds dropout
  std::span<const ContextShare> microbatches;  ///< of this rank; they outlive the passes
  /// Called in the head's unit with the final hidden states [R, D] of a microbatch; seeds their gradient when the tape records.
  std::function<void(int microbatch, ops::Tape& tape, const ops::Variable& hidden_RD)> head;
};

/// Some units of a decoder as a stage of a pipeline. Each microbatch has a tape, which lives from its forward to its backward pass.
///
/// Weight gradients of matrix products and embeddings can be postponed; those of norms, which cost next to nothing, and the head's, which the loss
/// makes, cannot. With full activation checkpointing none is: a block would have to run a third time.
class DecoderStage final : public pipeline::Stage {
 public:
  /// The engine is behind the decoder's unit hooks. All must outlive the stage.
  DecoderStage(const model::Decoder& decoder, model::ParameterStore& store, DataParallelEngine& engine, model::UnitRange units, PassOptions options);
  ~DecoderStage() override;

  at::Tensor message(int microbatch) const override;
  at::Tensor forward(int microbatch, const at::Tensor& input) override;
  at::Tensor backward(int microbatch, at::Tensor output_gradient, bool put_off_weights) override;
  void weight_gradients(int microbatch) override;
  void gather() override { engine_.gather(units_); }
  /// Once nothing that was postponed is left.
  void free() override;
  void reduce_gradients() override { engine_.reduce(units_); }

 private:
  struct Passes;

  bool has_put_off() const;
  void set_queue(ops::WeightGradientQueue* queue);

  const model::Decoder& decoder_;
  DataParallelEngine& engine_;
  model::UnitRange units_;
  PassOptions options_;
  bool is_first_, is_last_;
  bool free_later_ = false;
  at::TensorOptions activation_;  ///< of the residual stream
  std::vector<ops::Parameter*> parameters_;
  std::vector<std::unique_ptr<Passes>> passes_;  ///< by microbatch; null before forward and after the last backward
};

}  // namespace tessera::parallel
