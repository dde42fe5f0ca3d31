#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Ranks exchange tokens for heads: each attends over the whole rows with its share of the heads, and the results go back (Jacobs et al. 2023,
/// "DeepSpeed Ulysses", arXiv 2309.14509). The number of ranks divides the query heads; it divides the key/value heads, or is a multiple of them:
/// then several ranks get the same one.
std::unique_ptr<model::Attention> all_to_all_attention(comm::Communicator& group);

}  // namespace tessera::parallel
