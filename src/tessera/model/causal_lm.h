#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/core/dtype.h"
#include "tessera/model/decoder.h"
#include "tessera/model/parameter_store.h"
#include "tessera/model/spec.h"

namespace tessera::model {

struct CausalLMOptions {
  std::optional<DType> dtype = {};         ///< compute dtype; absent: the checkpoint's (fp16 weights compute in fp32)
  bool trainable = false;                  ///< masters and gradients are kept
  ParameterPredicate frozen = {};          ///< parameters without gradients
  ParameterPredicate full_precision = {};  ///< parameters in fp32 whatever the compute dtype (ParameterStore::Options)
  DecoderOptions decoder = {};
  Placement placement = {};                        ///< what of the weights this rank holds
  std::optional<Placement> expert_placement = {};  ///< and of stacked experts (ParameterStore::Options)
  /// What stands behind the attention seam, for a model with these numbers of heads; absent: whatever the ranks' share of the work asks for.
  std::function<std::unique_ptr<Attention>(const ModelSpec&)> attention = {};
};

/// What of every layer this rank computes, where several share them; by default all of it.
struct LayerShare {
  std::optional<ModelSpec> spec = {};        ///< with this rank's numbers of heads
  std::optional<ParameterTable> table = {};  ///< of this rank
  DecoderSeams seams = {};
};

/// A model ready to run: its description, its weights, and the decoder over them.
struct CausalLM {
  ModelSpec spec;  ///< of the whole model
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<Decoder> decoder;

  /// A Hugging Face directory with weights. UserError for everything wrong with it. When it computes in fp32 and is not trained, matrices that the
  /// checkpoint holds in bf16 stay in bf16 (ops::Parameter::widened): every product is the fp32 one, for half the memory and half the reading.
  static CausalLM from_pretrained(const std::filesystem::path& directory, const CausalLMOptions& options);
  /// The same for a spec that differs from the directory's config.json (overridden fields).
  static CausalLM from_pretrained(const std::filesystem::path& directory, const ModelSpec& spec, const CausalLMOptions& options,
                                  LayerShare share = {});
  /// Random weights that depend on (seed, parameter name) only.
  static CausalLM from_config(const ModelSpec& spec, std::uint64_t seed, const CausalLMOptions& options, LayerShare share = {});
};

/// What the model computes in when nothing else is asked: bf16 for bf16 checkpoints, fp32 otherwise.
DType default_compute_dtype(const ModelSpec& spec);

}  // namespace tessera::model
