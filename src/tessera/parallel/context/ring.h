#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Keys and values travel around the ring of ranks, the next ones on their way while attention to the present ones is computed; results merge by
/// their log-sum-exps in fp32. In backward they travel again, and their gradients with them until they reach their owner (Liu et al. 2023, arXiv
/// 2310.01889).
std::unique_ptr<model::Attention> ring_attention(comm::Communicator& group);

}  // namespace tessera::parallel
