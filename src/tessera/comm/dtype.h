#pragma once

#include <c10/core/ScalarType.h>

#include "tessera/core/dtype.h"

namespace tessera::comm {

/// Throws Failure for types that no communicator carries.
DType to_dtype(at::ScalarType type);

}  // namespace tessera::comm
