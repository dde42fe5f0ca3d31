#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Every rank gathers the keys and values of the whole rows for its queries; their gradients are reduce-scattered (as in Llama 3's training,
/// Grattafiori et al. 2024, arXiv 2407.21783).
std::unique_ptr<model::Attention> all_gather_attention(comm::Communicator& group);

}  // namespace tessera::parallel
