#pragma once

#include <vector>

#include "tessera/model/parameter_store.h"

namespace tessera::model {

/// ParameterStore::owned_pieces of a store with these options, without making one: arithmetic, no memory.
std::vector<PlacedPiece> plan_owned_pieces(const ParameterTable& table, const ParameterStore::Options& options);

}  // namespace tessera::model
