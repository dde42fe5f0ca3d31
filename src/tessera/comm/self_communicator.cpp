#include "tessera/comm/arguments.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/dtype.h"
#include "tessera/core/error.h"

#include <cstdlib>

namespace tessera::comm {
namespace {

/// Runs on the device's own stream when it has one, like everything else there.
void copy_unless_same(const at::Tensor& from, const at::Tensor& to) {
  if (from.data_ptr() != to.data_ptr()) to.copy_(from);
}

class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(std::int64_t global_rank) : members_{global_rank} {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  const std::vector<std::int64_t>& members() const override { return members_; }

  Work all_reduce(const at::Tensor& tensor, ReduceOperation operation, std::optional<at::ScalarType> wire) override {
    check_all_reduce(*this, tensor, wire);
    return {};
  }
  Work reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                      std::optional<at::ScalarType> wire) override {
    check_reduce_scatter(*this, input, counts, output, wire);
    copy_unless_same(input.view({-1}), output.view({-1}));
    return {};
  }
  Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) override {
    check_all_gather(*this, input, counts, output);
    copy_unless_same(input.view({-1}), output.view({-1}));
    return {};
  }
  Work broadcast(const at::Tensor& tensor, int root) override {
    check_broadcast(*this, tensor, root);
    return {};
  }
  Work all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                  std::span<const std::int64_t> output_counts) override {
    check_all_to_all(*this, input, input_counts, output, output_counts);
    copy_unless_same(input.view({-1}), output.view({-1}));
    return {};
  }
  Work send(const at::Tensor& tensor, int to) override {
    check_message(*this, tensor, to);
    return {};
  }
  Work receive(const at::Tensor& tensor, int from) override {
    check_message(*this, tensor, from);
    return {};
  }
  void barrier() override {}

 private:
  std::string name_ = "self";
  std::vector<std::int64_t> members_;
};

class SelfBackend : public Backend {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t world_size() const override { return 1; }
  std::int64_t local_rank() const override { return 0; }
  std::int64_t local_size() const override { return 1; }
  std::unique_ptr<Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) override {
    TESSERA_ASSERT(members.size() == 1 && members[0] == 0, "there is one rank");
    return self_communicator();
  }
  void abort(int status) override { std::_Exit(status); }
};

}  // namespace

std::unique_ptr<Communicator> self_communicator(std::int64_t global_rank) { return std::make_unique<SelfCommunicator>(global_rank); }

std::unique_ptr<Backend> self_backend() { return std::make_unique<SelfBackend>(); }

}  // namespace tessera::comm
