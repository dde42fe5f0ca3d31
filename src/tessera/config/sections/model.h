#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/dtype.h"
#include "tessera/core/json.h"

namespace tessera::config {

/// `from_pretrained` loads weights; `from_config` initialises them from the seed.
enum class ModelSource : std::uint8_t { Pretrained, Config };

/// The task that a model target asks for. Only CausalLM is trained; a recipe that asks for another one carries an unsupported problem.
enum class ModelTask : std::uint8_t { CausalLM, SequenceClassification, ImageTextToText, Other };

/// `model.backend`: which implementation upstream should choose. Tessera has one of each, so most names are notes;
/// what changes behaviour is kept here.
struct ModelBackend {
  bool fake_balanced_gate = false;      ///< experts are assigned round robin, for benchmarks
  std::optional<DType> gate_precision;  ///< the router always runs in fp32; other values are refused
};

/// `model`.
struct Model {
  ModelTask task = ModelTask::CausalLM;
  ModelSource source = ModelSource::Pretrained;
  /// Directory, config.json, or hub name: with weights for Pretrained, only config.json is read for Config. Empty: `config` is the whole of it.
  std::string path;
  /// Fields of config.json given in the recipe (`model.config.*` and keyword arguments such as num_hidden_layers). They replace those of
  /// `path`; without a path they must hold model_type or architectures.
  Json config = Json::object();
  /// Absent: `auto`, the dtype of the checkpoint (config.json's for from_config).
  std::optional<DType> torch_dtype;
  ModelBackend backend;
  /// Weight of the multi-token-prediction loss; only read by models that have such layers.
  double mtp_loss_scaling_factor = 0.1;
};

/// A tokenizer named in the recipe (`tokenizer`, `dataset.tokenizer`). Without one the model's directory is used.
struct Tokenizer {
  std::string path;  ///< directory, tokenizer file, or hub name; empty: the model's
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
};

}  // namespace tessera::config
