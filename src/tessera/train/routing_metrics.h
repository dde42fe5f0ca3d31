#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/train/routing.h"

namespace tessera::train {

/// How evenly the choices of the last step were spread over experts, by the names and formulas of AutoModel's `moe_metrics`. An expert's utilisation
/// is its load divided by the mean load of its layer; a layer's cv is the standard deviation (of a sample) of its loads divided by their mean, its
/// diversity exp(entropy of the loads) divided by their number. `top_k_experts`: also the utilisation of this many of the most and of the least used
/// experts of all layers. `detailed`: also by layer; a layer's number is that in the model. The z-loss is added to what AutoModel has, whose aux_loss
/// is the balance loss.
std::map<std::string, double> routing_metrics(const ExpertTraining& experts, std::int64_t top_k_experts, bool detailed);

/// Choices of all layers that the capacity dropped in the last step.
std::int64_t num_dropped(const ExpertTraining& experts);

}  // namespace tessera::train
