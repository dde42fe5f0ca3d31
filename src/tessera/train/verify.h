#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/core/dtype.h"
#include "tessera/model/decoder.h"

namespace tessera::train {

struct VerifyOptions {
  DType dtype = DType::F32;                           ///< F32, BF16 or F64
  std::int64_t steps = 10;                            ///< of the AdamW trace
  std::optional<std::int64_t> local_batch_size = {};  ///< rows of a microbatch; absent: all of a rank's. A pipeline has its own
  model::ActivationCheckpointing activation_checkpointing = model::ActivationCheckpointing::None;
  config::Distributed distributed = {};  ///< how ranks share the work
};

/// One compared quantity: its largest error, and what is allowed.
struct Comparison {
  std::string name;
  double error = 0.0;
  double tolerance = 0.0;
  bool passed() const { return error <= tolerance; }  // NaN fails
};

struct Verification {
  std::vector<Comparison> comparisons;  ///< logits, loss, each gradient, each traced loss and norm
  bool passed() const;
};

/// Compares this program with a golden directory: config.json, model.safetensors, golden.safetensors (input_ids, labels, logits of the first rows,
/// grad.NAME) and golden.json (loss, grad_norm, adamw_trace: lr 1e-3, betas 0.9/0.95, eps 1e-8, weight decay 0.1 on everything, clipped to norm 1).
/// Errors: logits absolute; loss, traced losses and norms relative; each gradient relative to its largest element. Tolerances are those of fp32 for
/// F32 and F64; in bf16 they only catch mistakes (2^-8 rounding dominates).
///
/// The golden's rows are one global batch, split over the data-parallel ranks of the backend in row order. Every rank calls it and gets the same
/// answer.
Verification verify_golden(const std::filesystem::path& directory, const VerifyOptions& options, comm::Backend& backend);

}  // namespace tessera::train
