#pragma once

#include <cstdint>

#include "tessera/model/parameter_store.h"

namespace tessera::model {

/// Random weights by the table's initialisations, in masters and compute weights. Every value is a function of (seed, name of the checkpoint tensor,
/// index of the element in that tensor): neither fusing, transposing nor splitting parameters changes it.
/// Normal ones come of Philox words through the Box-Muller transform, four at a time.
void initialize_weights(ParameterStore& store, std::uint64_t seed);

}  // namespace tessera::model
