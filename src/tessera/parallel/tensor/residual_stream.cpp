#include "tessera/parallel/tensor/residual_stream.h"

#include <ATen/ops/empty.h>

#include "tessera/ops/kernel_types.h"

namespace tessera::parallel {

model::TokenRange ResidualStream::part(std::int64_t rank, std::int64_t num_tokens) const {
  if (!cut_) return {0, num_tokens};
  const std::int64_t first = num_tokens * rank / group_.size();
  return {first, num_tokens * (rank + 1) / group_.size() - first};
}

std::vector<std::int64_t> ResidualStream::counts(std::int64_t num_tokens, std::int64_t width) const {
  std::vector<std::int64_t> result;
  for (int rank = 0; rank < group_.size(); ++rank) result.push_back(part(rank, num_tokens).count * width);
  return result;
}

Arriving ResidualStream::gather(const at::Tensor& tensor_RW, std::int64_t num_tokens) const {
  if (!cut_) return {tensor_RW, {}};
  const std::int64_t width = tensor_RW.size(1);
  at::Tensor whole = at::empty({num_tokens, width}, tensor_RW.options());
  comm::Work work = group_.all_gather(tensor_RW.contiguous(), counts(num_tokens, width), whole);
  return {std::move(whole), std::move(work)};
}

Arriving ResidualStream::sum(const at::Tensor& share_NW) const {
  const at::Tensor share = share_NW.contiguous();
  if (!cut_) return {share, group_.all_reduce(share)};
  const std::int64_t num_tokens = share.size(0), width = share.size(1);
  at::Tensor part = at::empty({tokens(num_tokens).count, width}, share.options());
  comm::Work work = group_.reduce_scatter(share, counts(num_tokens, width), part);
  return {std::move(part), std::move(work)};
}

at::Tensor ResidualStream::gather_in_parts(const at::Tensor& tensor_RW, std::int64_t num_tokens,
                                           const std::function<void(const model::TokenRange&, const at::Tensor&)>& use) const {
  const at::Tensor own = tensor_RW.contiguous();
  at::Tensor whole = at::empty({num_tokens, own.size(1)}, own.options());
  const auto rows = [&](int rank) { return whole.narrow(0, part(rank, num_tokens).first, part(rank, num_tokens).count); };
  const int size = group_.size(), rank = group_.rank();
  std::vector<comm::Work> sent, received(static_cast<std::size_t>(size));
  rows(rank).copy_(own);
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    if (own.numel() > 0) sent.push_back(group_.send(own, to));
    if (part(from, num_tokens).count > 0) received[static_cast<std::size_t>(from)] = group_.receive(rows(from), from);
  }
  for (int distance = 0; distance < size; ++distance) {
    const int from = (rank - distance + size) % size;
    received[static_cast<std::size_t>(from)].wait();
    use(part(from, num_tokens), rows(from));
  }
  for (comm::Work& work : sent) work.wait();
  return whole;
}

at::Tensor ResidualStream::sum_in_parts(std::int64_t num_tokens, const std::function<at::Tensor(const model::TokenRange&)>& make) const {
  const int size = group_.size(), rank = group_.rank();
  std::vector<at::Tensor> shares(static_cast<std::size_t>(size));
  std::vector<comm::Work> works;
  // Ranks meet in pairs: at each distance everyone makes what it sends and expects as much. Its own tokens come last.
  for (int distance = 1; distance <= size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    const at::Tensor share = make(part(to, num_tokens)).contiguous();
    if (to == rank) {
      shares[static_cast<std::size_t>(rank)] = share;
      continue;
    }
    at::Tensor& coming = shares[static_cast<std::size_t>(from)];
    coming = at::empty({tokens(num_tokens).count, share.size(1)}, share.options());
    if (share.numel() > 0) works.push_back(group_.send(share, to));
    if (coming.numel() > 0) works.push_back(group_.receive(coming, from));
  }
  for (comm::Work& work : works) work.wait();
  at::Tensor sum = shares[0].to(ops::compute_type(shares[0]), false, true);
  for (std::size_t from = 1; from < shares.size(); ++from) sum.add_(shares[from]);
  return sum.to(shares[0].scalar_type());
}

ops::Variable ResidualStream::enter(ops::Tape& tape, const ops::Variable& input_RW, std::int64_t num_tokens) const {
  ops::Variable output = tape.variable(gather(input_RW.value, num_tokens).wait());
  tape.record([this, slot = input_RW.gradient, out = output.gradient] {
    if (!out->empty()) slot->add_owned(sum(out->take_owned()).wait());
  });
  return output;
}

ops::Variable ResidualStream::spread(ops::Tape& tape, const ops::Variable& input_RW, std::int64_t num_tokens) const {
  if (!cut_) return input_RW;
  ops::Variable output = tape.variable(gather(input_RW.value, num_tokens).wait());
  tape.record([here = tokens(num_tokens), slot = input_RW.gradient, out = output.gradient] {
    if (!out->empty()) slot->add_owned(out->take().narrow(0, here.first, here.count).contiguous());
  });
  return output;
}

ops::Variable ResidualStream::take(ops::Tape& tape, const ops::Variable& whole_NW) const {
  if (!cut_) return whole_NW;
  const std::int64_t num_tokens = whole_NW.value.size(0);
  const model::TokenRange here = tokens(num_tokens);
  ops::Variable output = tape.variable(whole_NW.value.narrow(0, here.first, here.count).clone());
  tape.record([this, num_tokens, slot = whole_NW.gradient, out = output.gradient] {
    if (!out->empty()) slot->add_owned(gather(out->take(), num_tokens).wait());
  });
  return output;
}

ops::Variable ResidualStream::leave(ops::Tape& tape, const ops::Variable& share_NW) const {
  const std::int64_t num_tokens = share_NW.value.size(0);
  ops::Variable output = tape.variable(sum(share_NW.value).wait());
  tape.record([this, num_tokens, slot = share_NW.gradient, out = output.gradient] {
    if (out->empty()) return;
    const at::Tensor gradient = out->take();
    cut_ ? slot->add_owned(gather(gradient, num_tokens).wait()) : slot->add_shared(gradient);
  });
  return output;
}

}  // namespace tessera::parallel
