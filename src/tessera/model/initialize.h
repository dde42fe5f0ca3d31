#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/model/parameter_store.h"

namespace tessera::model {

/// Random weights by the table's initialisations, in masters and compute weights. Every value is a function of (seed, name of the checkpoint tensor,
/// index of the element in that tensor): neither fusing, transposing nor splitting parameters changes it.
void initialize_weights(ParameterStore& store, std::uint64_t seed);

/// Standard normal values of elements [first, first + out.size()) of a checkpoint tensor: Philox words through the Box-Muller transform, four at a
/// time.
void normal_values(std::uint64_t seed, const std::string& tensor, std::uint64_t first, std::span<float> out);

}  // namespace tessera::model
