#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/dtype.h"

namespace tessera::cli {

/// The value of --dtype, by any of its spellings; nullopt for "auto" (the checkpoint's own). UserError that lists the choices otherwise.

/// What to compute in: one of `allowed`.
std::optional<DType> compute_dtype(const std::string& name, const std::vector<DType>& allowed, bool has_auto = false);
/// What to store weights in: float32, bfloat16, float16 or auto.
std::optional<DType> storage_dtype(const std::string& name);

}  // namespace tessera::cli
