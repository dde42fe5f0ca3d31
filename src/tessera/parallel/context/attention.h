#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Attention over rows that are cut along the sequence (split.h) over the ranks of `group`, which must outlive it. All three give what attention over
/// the whole rows gives, dropout, windows, soft caps and documents included; keys and values never travel as more than the key/value heads.
///
/// Besides its own keys and values a rank holds two blocks of them (ring), those of the whole rows (allgather), or none (all_to_all).
/// docs/parallelism.md counts the bytes that each kind sends.
///
/// all_to_all needs n to divide the rank's query heads, and to divide or be a multiple of its key/value heads.
std::unique_ptr<model::Attention> context_parallel_attention(comm::Communicator& group, config::CpAttention kind);

}  // namespace tessera::parallel
