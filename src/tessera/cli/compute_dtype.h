#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"

namespace tessera::cli {

/// The value of --dtype: one of `allowed` by any of its spellings, or nullopt for "auto" (the checkpoint's own). UserError that lists them otherwise.
std::optional<DType> compute_dtype(const std::string& name, const std::vector<DType>& allowed, bool has_auto = false);

}  // namespace tessera::cli
