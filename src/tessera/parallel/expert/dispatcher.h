#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"

namespace tessera::parallel {

/// Experts over the ranks of `group` (ep), which must outlive it: rank r of n holds experts r · E/n to (r + 1) · E/n − 1, and has tokens of its own
/// (perhaps none). Every rank makes the same calls.
///
///                     forward                                     backward
///   counts            all-to-all of two int64 a rank              -
///   tokens            each once to every rank that holds an       their gradients, added up in fp32 where they came from, come back the
///                     expert of its choice                        same way
///   choices           an index and a weight each                  the weights' gradients
///   results           one row comes back for each that went: the  the results' gradients go there
///                     sum by weight over the experts there, in fp32
///
/// `meanwhile` runs while tokens and choices travel; its backward while their gradients do.
std::unique_ptr<model::Dispatcher> expert_parallel_dispatcher(comm::Communicator& group);

}  // namespace tessera::parallel
