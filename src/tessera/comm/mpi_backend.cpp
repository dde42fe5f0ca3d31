#include "tessera/comm/mpi_backend.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "tessera/comm/arguments.h"
#include "tessera/comm/dtype.h"
#include "tessera/comm/exchange.h"

namespace tessera::comm {
namespace {

Elements elements_of(const at::Tensor& tensor) { return {tensor.data_ptr(), to_dtype(tensor.scalar_type()), tensor.numel()}; }

DType wire_of(const at::Tensor& tensor, std::optional<at::ScalarType> wire) { return to_dtype(wire.value_or(tensor.scalar_type())); }

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MpiEngine& engine, std::shared_ptr<const GroupInfo> group)
      : engine_(engine), group_(std::move(group)), sent_(group_->members.size()), received_(group_->members.size()) {}
  int rank() const override { return group_->rank; }
  int size() const override { return static_cast<int>(group_->members.size()); }
  const std::string& name() const override { return group_->name; }
  const std::vector<std::int64_t>& members() const override { return group_->members; }

  Work all_reduce(const at::Tensor& tensor, ReduceOperation operation, std::optional<at::ScalarType> wire) override {
    check_all_reduce(*this, tensor, wire);
    return start(all_reduce_exchange(place(), elements_of(tensor), operation, wire_of(tensor, wire)), {tensor});
  }
  Work reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                      std::optional<at::ScalarType> wire) override {
    check_reduce_scatter(*this, input, counts, output, wire);
    return start(reduce_scatter_exchange(place(), elements_of(input), counts, elements_of(output), wire_of(input, wire)), {input, output});
  }
  Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) override {
    check_all_gather(*this, input, counts, output);
    return start(all_gather_exchange(place(), elements_of(input), counts, elements_of(output)), {input, output});
  }
  Work broadcast(const at::Tensor& tensor, int root) override {
    check_broadcast(*this, tensor, root);
    return start(broadcast_exchange(place(), elements_of(tensor), root), {tensor});
  }
  Work all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                  std::span<const std::int64_t> output_counts) override {
    check_all_to_all(*this, input, input_counts, output, output_counts);
    return start(all_to_all_exchange(place(), elements_of(input), input_counts, elements_of(output), output_counts), {input, output});
  }
  Work send(const at::Tensor& tensor, int to) override {
    check_message(*this, tensor, to);
    return submit(send_exchange(elements_of(tensor), to), {tensor}, sent_[static_cast<std::size_t>(to)]++);
  }
  Work receive(const at::Tensor& tensor, int from) override {
    check_message(*this, tensor, from);
    return submit(receive_exchange(elements_of(tensor), from), {tensor}, received_[static_cast<std::size_t>(from)]++);
  }
  void barrier() override { start(barrier_exchange(place()), {}).wait(); }

 private:
  Place place() const { return {rank(), size()}; }
  Work start(Exchange exchange, std::vector<at::Tensor> tensors) { return submit(std::move(exchange), std::move(tensors), operations_++); }
  Work submit(Exchange exchange, std::vector<at::Tensor> tensors, std::uint64_t sequence) {
    exchange.kept.push_back(std::make_shared<std::vector<at::Tensor>>(std::move(tensors)));
    return Work(engine_.submit(group_, sequence, std::move(exchange)));
  }

  MpiEngine& engine_;
  std::shared_ptr<const GroupInfo> group_;
  std::uint64_t operations_ = 0;
  std::vector<std::uint64_t> sent_;  ///< messages, per peer
  std::vector<std::uint64_t> received_;
};

}  // namespace

bool started_by_mpi() {
  // Open MPI; MPICH, Slurm's PMI and others; anything that speaks PMIx.
  constexpr std::array kVariables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::ranges::any_of(kVariables, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::unique_ptr<Communicator> MpiBackend::communicator(const std::vector<std::int64_t>& members, const std::string& name) {
  const auto own = std::ranges::find(members, rank());
  TESSERA_ASSERT(own != members.end(), "a rank makes only communicators that it is in");
  if (members.size() == 1) return self_communicator(rank());
  return std::make_unique<MpiCommunicator>(
      *engine_, engine_->make_group({.id = 0, .name = name, .members = members, .rank = static_cast<int>(own - members.begin())}));
}

}  // namespace tessera::comm
