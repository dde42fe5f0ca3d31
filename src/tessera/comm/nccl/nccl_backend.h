#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/launch/rank_environment.h"

namespace tessera::comm {

/// GPUs that processes on this host can use: 0 without a driver, and in a build whose libtorch has no CUDA.
int num_gpus();

/// Ranks that talk NCCL (c10d::ProcessGroupNCCL), one per GPU: rank k of a host has its k-th GPU, which becomes this thread's current device. They
/// meet in a c10d TCPStore. UserError when this host has too few GPUs; Failure when the others cannot be met within the timeout.
///
/// What differs from communicator.h: `wait` orders later work of the current stream behind the operation and returns at once. Sums are NCCL's, in
/// the wire dtype and NCCL's order, and `reduce_scatter` rounds this rank's own part to the wire dtype too. Tensors in host memory are taken as well:
/// they travel through the GPU, and `wait` returns when the result is in host memory. An operation that makes no progress for the timeout ends the
/// process, with c10d's report of operation, group and sequence number. `abort` ends this process; torchrun then ends the others.
std::unique_ptr<Backend> nccl_backend(const launch::RankEnvironment& place, const launch::Rendezvous& meeting, double timeout_seconds);

}  // namespace tessera::comm
