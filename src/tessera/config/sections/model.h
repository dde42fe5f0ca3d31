#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/dtype.h"
#include "tessera/core/json.h"

namespace tessera::config {

/// `from_pretrained` loads weights; `from_config` initialises them from the seed.
enum class ModelSource : std::uint8_t { Pretrained, Config };

/// `model.backend`: which implementation upstream should choose. Tessera has one of each, so most names are notes;
/// what changes behaviour is kept here.
struct ModelBackend {
  bool fake_balanced_gate = false;  ///< experts are assigned round robin, for benchmarks
};

/// `model.moe_overrides`: what is asked of routing while a mixture of experts is trained. The first two and train_gate by the names of AutoModel's
/// MoEConfig.
struct MoeOverrides {
  std::optional<double> aux_loss_coeff;  ///< of the balance loss; absent: the recipe's router_aux_loss_coef, or none
  double gate_bias_update_factor = 0.0;  ///< γ of the correction bias's update after each step; 0: it stays as it is
  bool train_gate = true;                ///< false: the router's weights are frozen
  bool aux_loss_by_microbatch = false;   ///< aux_loss_scope: sequence | microbatch
  double z_loss_coeff = 0.0;
  std::optional<double> capacity_factor;  ///< absent: nothing is dropped
};

/// `model`.
struct Model {
  ModelSource source = ModelSource::Pretrained;
  /// Directory, config.json, or hub name: with weights for Pretrained, only config.json is read for Config. Empty: `config` is the whole of it.
  std::string path;
  /// Fields of config.json given in the recipe (`model.config.*` and keyword arguments such as num_hidden_layers). They replace those of
  /// `path`; without a path they must hold model_type or architectures.
  Json config = Json::object();
  /// Absent: `auto`, the dtype of the checkpoint (config.json's for from_config).
  std::optional<DType> torch_dtype;
  ModelBackend backend;
  MoeOverrides moe_overrides;
};

/// A tokenizer named in the recipe (`tokenizer`, `dataset.tokenizer`). Without one the model's directory is used.
struct Tokenizer {
  std::string path;                   ///< directory, tokenizer file, or hub name; empty: the model's
  std::optional<bool> add_bos_token;  ///< whether BOS stands before a text; absent: as the tokenizer's own files say
  std::optional<bool> add_eos_token;  ///< the same of EOS after it
};

}  // namespace tessera::config
