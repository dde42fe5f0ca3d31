#pragma once

#include <memory>

#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Attention for values of another width than keys by one that needs them equal: narrower values are padded with zeros, and what they make is cut
/// off.
std::unique_ptr<model::Attention> with_equal_widths(std::unique_ptr<model::Attention> attention);

}  // namespace tessera::parallel
