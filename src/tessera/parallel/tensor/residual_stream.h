#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/model/seams.h"
#include "tessera/ops/tape.h"

namespace tessera::parallel {

/// A tensor that a communication under way will fill.
struct Arriving {
  at::Tensor tensor;
  comm::Work work;

  at::Tensor wait() {
    work.wait();
    return tensor;
  }
};

/// How the residual stream lies over the ranks of tensor parallelism: whole on each, or cut by tokens (sequence parallelism). Every rank of the group
/// makes the same calls.
class ResidualStream {
 public:
  /// The group must outlive it.
  ResidualStream(comm::Communicator& group, bool cut) : group_(group), cut_(cut) {}

  comm::Communicator& group() const { return group_; }
  bool cut() const { return cut_; }
  model::TokenRange tokens(std::int64_t num_tokens) const { return part(group_.rank(), num_tokens); }
  /// Those of one rank: [N · rank / size, N · (rank + 1) / size).
  model::TokenRange part(std::int64_t rank, std::int64_t num_tokens) const;

  /// All tokens [N, W] of rows that lie like the residual stream [R, W]: all-gather, or the tensor itself.
  Arriving gather(const at::Tensor& tensor_RW, std::int64_t num_tokens) const;
  /// The sum over ranks [R, W] of their shares [N, W]: reduce-scatter, or all-reduce in place.
  Arriving sum(const at::Tensor& share_NW) const;

  /// `gather` of a stream that is cut, each rank's tokens being given to `use` as soon as they are here, one rank after another, the next ones under
  /// way. Returns all of them.
  at::Tensor gather_in_parts(const at::Tensor& tensor_RW, std::int64_t num_tokens,
                             const std::function<void(const model::TokenRange&, const at::Tensor&)>& use) const;
  /// `sum` of a stream that is cut, each rank's tokens of the share being made by `make` and sent while the next ones are made. The same bits.
  at::Tensor sum_in_parts(std::int64_t num_tokens, const std::function<at::Tensor(const model::TokenRange&)>& make) const;

  /// The same as operators; each is the other's backward. `enter` is how activations leave the residual stream, `leave` how shares come back.
  ops::Variable enter(ops::Tape& tape, const ops::Variable& input_RW, std::int64_t num_tokens) const;
  ops::Variable leave(ops::Tape& tape, const ops::Variable& share_NW) const;
  /// Where every rank computes the same: all tokens of the stream (backward: this rank's of the gradient, which all have whole), and this rank's
  /// tokens of what all have whole (backward: all-gather).
  ops::Variable spread(ops::Tape& tape, const ops::Variable& input_RW, std::int64_t num_tokens) const;
  ops::Variable take(ops::Tape& tape, const ops::Variable& whole_NW) const;

 private:
  std::vector<std::int64_t> counts(std::int64_t num_tokens, std::int64_t width) const;

  comm::Communicator& group_;
  bool cut_;
};

}  // namespace tessera::parallel
