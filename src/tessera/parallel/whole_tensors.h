#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "tessera/parallel/causal_lm.h"

/// Tensors of a model put together from all ranks: for verification, and for generation where a model lies over several.
namespace tessera::parallel {

/// Logits of all tokens of a microbatch, [B · T, V]; not recorded. Every rank calls it.
at::Tensor whole_logits(const CausalLM& model, const model::Inputs& inputs);
/// Every checkpoint tensor whole, by name: its gradient after a step's gradients are complete (frozen ones left out), or its master weights.
/// Every rank calls them.
std::map<std::string, at::Tensor> whole_gradients(const CausalLM& model);
std::map<std::string, at::Tensor> whole_weights(const CausalLM& model);

}  // namespace tessera::parallel
