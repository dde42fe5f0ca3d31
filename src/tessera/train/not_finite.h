#pragma once

#include "tessera/parallel/causal_lm.h"
#include "tessera/train/step.h"

namespace tessera::train {

/// Says what is not finite in step `step` (counted from 0), on which rank, and where it came from; throws Failure, the same at every rank. Every rank
/// of the data group calls it, after the gradients are complete.
[[noreturn]] void fail_not_finite(const parallel::CausalLM& model, const StepResult& result, std::uint64_t step);

}  // namespace tessera::train
