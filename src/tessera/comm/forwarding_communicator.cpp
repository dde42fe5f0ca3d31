#include "tessera/comm/forwarding_communicator.h"

#include "tessera/comm/dtype.h"

namespace tessera::comm {
namespace {

OperationDescription description_of(OperationKind kind, const at::Tensor& tensor, std::optional<at::ScalarType> wire = std::nullopt) {
  return {.kind = kind, .dtype = to_dtype(tensor.scalar_type()), .wire = to_dtype(wire.value_or(tensor.scalar_type())), .elements = tensor.numel()};
}

std::int64_t bytes_of(const OperationDescription& description, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(size_of(description.wire));
}

class DecoratedBackend : public Backend {
 public:
  DecoratedBackend(Backend& inner, Decorate decorate) : inner_(inner), decorate_(std::move(decorate)) {}
  std::int64_t rank() const override { return inner_.rank(); }
  std::int64_t world_size() const override { return inner_.world_size(); }
  std::int64_t local_rank() const override { return inner_.local_rank(); }
  std::int64_t local_size() const override { return inner_.local_size(); }
  std::unique_ptr<Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) override {
    return decorate_(inner_.communicator(members, name));
  }
  void abort(int status) override { inner_.abort(status); }

 private:
  Backend& inner_;
  Decorate decorate_;
};

}  // namespace

Work ForwardingCommunicator::all_reduce(const at::Tensor& tensor, ReduceOperation operation, std::optional<at::ScalarType> wire) {
  OperationDescription description = description_of(OperationKind::AllReduce, tensor, wire);
  description.reduce = operation;
  // Every element but the own part goes out once to be reduced, and the own part to everyone.
  description.bytes_sent = bytes_of(description, 2 * tensor.numel() * (size() - 1) / size());
  return around(description, [&] { return inner_->all_reduce(tensor, operation, wire); });
}

Work ForwardingCommunicator::reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                                            std::optional<at::ScalarType> wire) {
  OperationDescription description = description_of(OperationKind::ReduceScatter, input, wire);
  description.counts_digest = digest_of(counts);
  description.bytes_sent = bytes_of(description, input.numel() - output.numel());
  return around(description, [&] { return inner_->reduce_scatter(input, counts, output, wire); });
}

Work ForwardingCommunicator::all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) {
  OperationDescription description = description_of(OperationKind::AllGather, output);
  description.counts_digest = digest_of(counts);
  description.bytes_sent = bytes_of(description, input.numel() * (size() - 1));
  return around(description, [&] { return inner_->all_gather(input, counts, output); });
}

Work ForwardingCommunicator::broadcast(const at::Tensor& tensor, int root) {
  OperationDescription description = description_of(OperationKind::Broadcast, tensor);
  description.peer = root;
  description.bytes_sent = rank() == root ? bytes_of(description, tensor.numel()) : 0;
  return around(description, [&] { return inner_->broadcast(tensor, root); });
}

Work ForwardingCommunicator::all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                                        std::span<const std::int64_t> output_counts) {
  OperationDescription description = description_of(OperationKind::AllToAll, input);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) description.bytes_sent += bytes_of(description, input_counts[static_cast<std::size_t>(peer)]);
  return around(description, [&] { return inner_->all_to_all(input, input_counts, output, output_counts); });
}

Work ForwardingCommunicator::send(const at::Tensor& tensor, int to) {
  OperationDescription description = description_of(OperationKind::Send, tensor);
  description.peer = to;
  description.bytes_sent = bytes_of(description, tensor.numel());
  return around(description, [&] { return inner_->send(tensor, to); });
}

Work ForwardingCommunicator::receive(const at::Tensor& tensor, int from) {
  OperationDescription description = description_of(OperationKind::Receive, tensor);
  description.peer = from;
  return around(description, [&] { return inner_->receive(tensor, from); });
}

void ForwardingCommunicator::barrier() {
  around({.kind = OperationKind::Barrier}, [&] {
    inner_->barrier();
    return Work();
  }).wait();
}

std::unique_ptr<Backend> decorated_backend(Backend& inner, Decorate decorate) {
  return std::make_unique<DecoratedBackend>(inner, std::move(decorate));
}

}  // namespace tessera::comm
