#pragma once

#include <functional>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// Base of communicators that add something to another one: every operation goes through `around`.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  const std::vector<std::int64_t>& members() const override { return inner_->members(); }

  Work all_reduce(const at::Tensor& tensor, ReduceOperation operation, std::optional<at::ScalarType> wire) override;
  Work reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                      std::optional<at::ScalarType> wire) override;
  Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) override;
  Work broadcast(const at::Tensor& tensor, int root) override;
  Work all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                  std::span<const std::int64_t> output_counts) override;
  Work send(const at::Tensor& tensor, int to) override;
  Work receive(const at::Tensor& tensor, int from) override;
  void barrier() override;

 protected:
  /// Calls `start`, which issues the operation on the inner communicator. `description.bytes_sent` is what a ring or a pairwise exchange sends.
  virtual Work around(const OperationDescription& description, const std::function<Work()>& start) = 0;
  Communicator& inner() { return *inner_; }

 private:
  std::unique_ptr<Communicator> inner_;
};

/// Makes one communicator out of another.
using Decorate = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
/// A backend whose communicators are `inner`'s, decorated. `inner` must outlive it.
std::unique_ptr<Backend> decorated_backend(Backend& inner, Decorate decorate);

}  // namespace tessera::comm
