#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/model/inputs.h"
#include "tessera/model/parameter_store.h"
#include "tessera/model/seams.h"
#include "tessera/model/spec.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

enum class ActivationCheckpointing { None, Full, Selective };

struct DecoderOptions {
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::None;
  /// Dropout happens only when the tape records; the masks are a function of (dropout_seed, step, layer, sample, element).
  std::uint64_t dropout_seed = 0;
};

/// The output projection as the loss and generation need it: the weight may be the embedding's.
struct HeadView {
  ops::Parameter* weight = nullptr;  ///< [V, D]
  double logits_divisor = 1.0;
  std::optional<double> soft_cap;    ///< logits = cap · tanh(logits / cap)
};

/// Every decoder-only model Tessera knows, driven by its ModelSpec. Single-process code: whatever splits the work stands behind the seams.
/// Holds pointers into `store`, which must outlive it.
class Decoder {
 public:
  Decoder(const ModelSpec& spec, ParameterStore& store, DecoderOptions options, Seams seams = local_seams());
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// The hidden states after the final norm, [B·T, D] in the compute dtype. `step` only feeds dropout.
  ops::Variable hidden(ops::Tape& tape, const Inputs& inputs, std::uint64_t step = 0) const;
  /// Logits [N, V] in fp32 (fp64 for reference runs) of hidden rows [N, D]; not recorded.
  at::Tensor logits(const at::Tensor& hidden_ND) const;
  HeadView head() const;
  const ModelSpec& spec() const { return spec_; }

 private:
  struct Block;
  ModelSpec spec_;
  DecoderOptions options_;
  Seams seams_;
  std::vector<std::unique_ptr<Block>> blocks_;
  ops::Parameter* embedding_ = nullptr;
  ops::Parameter* position_embedding_ = nullptr;
  ops::Parameter* final_norm_ = nullptr;
  ops::Parameter* final_norm_bias_ = nullptr;
  ops::Parameter* head_ = nullptr;
};

}  // namespace tessera::model
