#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Attention over rows that are cut along the sequence (split.h) over the ranks of `group`, which must outlive it. All three give what attention over
/// the whole rows gives, dropout, windows, soft caps and documents included; keys and values never travel as more than the key/value heads.
///
/// With n ranks, N tokens a rank and W = 2 · K · C numbers a token of keys and values, each rank sends per layer
///                forward                          backward
///   ring         (n − 1) · N · W                  (n − 1) · N · W, and n · N · W of gradients in fp32
///   allgather    (n − 1) · N · W                  (n − 1) · N · W of gradients in fp32
///   all_to_all   (n − 1) / n · N · (2 · H · C + W')  the same, where W' = W, or 2 · n · C when K < n
/// and holds beside its own: ring two blocks of keys and values, allgather those of the whole rows, all_to_all none.
///
/// all_to_all needs n to divide the rank's query heads, and to divide or be a multiple of its key/value heads.
std::unique_ptr<model::Attention> context_parallel_attention(comm::Communicator& group, config::CpAttention kind);

}  // namespace tessera::parallel
