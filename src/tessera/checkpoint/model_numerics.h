#pragma once

#include "tessera/core/json.h"
#include "tessera/model/spec.h"

namespace tessera::checkpoint {

/// What decides a model's results besides its tensors and their sizes, field by field: {"activation": "silu", "rope.theta": 10000.0, …}. Precision,
/// dropout and initialisation are not among it. A field without a value is null; one value for all layers where they agree, else a list of them.
Json model_numerics(const model::ModelSpec& spec);

}  // namespace tessera::checkpoint
