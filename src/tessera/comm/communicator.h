#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/reduction.h"
#include "tessera/comm/work.h"

namespace tessera::comm {

/// Talks over one group of ranks. Every operation starts at once and returns a Work; operations of one communicator are matched by the order in which
/// the ranks issue them, so all ranks of the group issue the same ones in the same order. Operations of different communicators do not wait for each
/// other. Tensors are contiguous, on the communicator's device; counts are in elements. An operation that cannot complete (a peer is gone, the
/// timeout passes) throws Failure from `wait`.
///
/// Sums of floating-point tensors are made in fp32 (fp64 for fp64), in rank order, so they are the same bits at every rank and on every run. What is
/// otherwise on GPUs, nccl/nccl_backend.h says.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  ///< in this group
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  ///< of its axes, for messages: "dp_shard"
  /// Global ranks of the group's members, in group order.
  virtual const std::vector<std::int64_t>& members() const = 0;

  /// tensor = op over ranks of tensor. `wire`: the dtype that travels, when it is not the tensor's; every rank's contribution and the result are then
  /// rounded to it, so that all ranks hold the same bits (a group of one leaves its tensor as it is).
  virtual Work all_reduce(const at::Tensor& tensor, ReduceOperation operation = ReduceOperation::Sum,
                          std::optional<at::ScalarType> wire = std::nullopt) = 0;
  /// input [Σ counts] is cut into parts of counts[r] elements; output [counts[rank]] = sum over ranks of this rank's part. `output` may be this
  /// rank's part of `input`. `wire` is the dtype that travels; this rank's own part is not rounded, and the sum stays in the output's dtype.
  virtual Work reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                              std::optional<at::ScalarType> wire = std::nullopt) = 0;
  /// output [Σ counts] = the inputs [counts[r]] of all ranks one after another. `input` may be this rank's part of `output`.
  virtual Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) = 0;
  virtual Work broadcast(const at::Tensor& tensor, int root) = 0;
  /// Sends input_counts[r] elements of `input` to each rank r and receives output_counts[r] from it, in rank order.
  virtual Work all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                          std::span<const std::int64_t> output_counts) = 0;
  /// Messages between two ranks arrive in the order they were sent; they do not count in the group's order of operations. The receiver gives a tensor
  /// of the sender's size and dtype.
  virtual Work send(const at::Tensor& tensor, int to) = 0;
  virtual Work receive(const at::Tensor& tensor, int from) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
};

/// A group of one: everything completes at once.
std::unique_ptr<Communicator> self_communicator(std::int64_t global_rank = 0);

/// What ranks of a run talk through: MPI on CPUs, NCCL on GPUs, nothing in a single process.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t world_size() const = 0;
  virtual std::int64_t local_rank() const = 0;  ///< among the ranks of this host
  virtual std::int64_t local_size() const = 0;
  /// A communicator over these global ranks (this one among them), in this order. All of them call it, in the same order of calls.
  virtual std::unique_ptr<Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) = 0;
  /// Ends every rank of the run at once with this exit status; the caller has printed why.
  [[noreturn]] virtual void abort(int status) = 0;
};

/// A single process: its one communicator is `self_communicator`.
std::unique_ptr<Backend> self_backend();

}  // namespace tessera::comm
