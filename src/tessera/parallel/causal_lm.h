#pragma once

#include <filesystem>
#include <memory>

#include "tessera/model/causal_lm.h"
#include "tessera/parallel/context/split.h"
#include "tessera/parallel/data/engine.h"
#include "tessera/parallel/pipeline_passes.h"
#include "tessera/parallel/setup.h"

namespace tessera::parallel {

/// A model whose state is laid over the ranks of a setup, ready to train. No rank ever holds more of it than the policy says, neither while it is
/// initialised or loaded nor later. All ranks make the same calls.
struct CausalLM {
  model::CausalLM model;
  DataParallelPolicy policy;
  std::unique_ptr<DataParallelEngine> engine;
  std::unique_ptr<PipelinePasses> pipeline;  ///< null where pp_size is 1
  const mesh::MeshContext* mesh = nullptr;   ///< of the setup, which outlives the model
  Communicators* communicators = nullptr;    ///< likewise

  /// Whom this rank talks to along these axes.
  comm::Communicator& group(mesh::AxisSet axes) const { return communicators->get(axes); }
  /// This rank's part of a microbatch that all ranks of cp have whole.
  ContextShare share_of(const model::Inputs& inputs, const at::Tensor& labels_BT) const;

  /// UserError when the model cannot be split so. Otherwise as model::CausalLM's. `num_microbatches` of one optimizer step at a rank decides whether
  /// whole gradients are kept; a pipeline's schedule is made for them. The setup must outlive the model; `options.placement` is set from it.
  static CausalLM from_pretrained(const std::filesystem::path& directory, const model::ModelSpec& spec, const DistributedSetup& setup,
                                  model::CausalLMOptions options, std::int64_t num_microbatches = 1);
  static CausalLM from_config(const model::ModelSpec& spec, std::uint64_t seed, const DistributedSetup& setup, model::CausalLMOptions options,
                              std::int64_t num_microbatches = 1);
};

}  // namespace tessera::parallel
