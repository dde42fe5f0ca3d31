#include "tessera/comm/nccl/nccl_backend.h"

// c10d's header is empty without it.
#define USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tessera/comm/arguments.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::comm {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

/// c10's messages end with a stack trace.
std::string first_line(const c10::Error& error) { return split(error.what_without_backtrace(), '\n').front(); }

/// Where NCCL's result goes when the operation is complete, unless it wrote there itself.
struct Delivery {
  at::Tensor from;
  at::Tensor to;
  void operator()() const {
    if (!to.is_same(from)) to.view({-1}).copy_(from);  // to host memory: returns when it is there
  }
};

class NcclOperation : public PendingOperation {
 public:
  NcclOperation(c10::intrusive_ptr<c10d::Work> work, std::string what, Delivery delivery, std::vector<at::Tensor> kept)
      : work_(std::move(work)), what_(std::move(what)), delivery_(std::move(delivery)), kept_(std::move(kept)) {}
  void wait() override {
    if (completed_) return;
    try {
      work_->wait();
      if (delivery_.to.defined()) delivery_();
    } catch (const c10::Error& error) {
      throw Failure({"", fmt::format("{} failed: {}", what_, first_line(error)), "", ""});
    }
    completed_ = std::chrono::steady_clock::now();
  }
  bool done() const override { return completed_ || work_->isCompleted(); }
  CompletionTime completed() const override { return completed_; }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  Delivery delivery_;
  std::vector<at::Tensor> kept_;
  CompletionTime completed_;
};

c10d::ReduceOp to_c10d(ReduceOperation operation) {
  switch (operation) {
    case ReduceOperation::Sum:
      return c10d::ReduceOp::SUM;
    case ReduceOperation::Max:
      return c10d::ReduceOp::MAX;
    case ReduceOperation::Min:
      return c10d::ReduceOp::MIN;
  }
  TESSERA_ASSERT(false, "no such operation");
}

bool all_equal(std::span<const std::int64_t> counts) {
  return std::ranges::all_of(counts, [&](std::int64_t count) { return count == counts[0]; });
}

std::vector<at::Tensor> parts_of(const at::Tensor& flat, std::span<const std::int64_t> counts) {
  return flat.split_with_sizes(at::IntArrayRef(counts.data(), counts.size()));
}

/// The groups of c10d behind one communicator. c10d runs the messages between two ranks in the order in which they were started, and a large send
/// ends only when its receive has begun: two ranks that each send and then receive would wait for each other. So messages to higher and to lower
/// ranks have a group each, in which no circle of ranks can form. NCCL makes a group's connections when it is first used.
struct Groups {
  GroupPtr collectives, upward, downward;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Groups groups, c10::Device device, std::vector<std::int64_t> members, std::string name)
      : groups_(std::move(groups)), device_(device), members_(std::move(members)), name_(std::move(name)) {}
  ~NcclCommunicator() override {
    for (const GroupPtr& group : {groups_.collectives, groups_.upward, groups_.downward}) {
      try {
        group->shutdown();
      } catch (const std::exception&) {
        // Ranks that are gone have been reported by the operation that missed them.
      }
    }
  }
  int rank() const override { return groups_.collectives->getRank(); }
  int size() const override { return groups_.collectives->getSize(); }
  const std::string& name() const override { return name_; }
  const std::vector<std::int64_t>& members() const override { return members_; }

  Work all_reduce(const at::Tensor& tensor, ReduceOperation operation, std::optional<at::ScalarType> wire) override {
    check_all_reduce(*this, tensor, wire);
    std::vector<at::Tensor> travelling{on_device(tensor, wire.value_or(tensor.scalar_type()))};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(operation);
    return start("all_reduce", groups_.collectives->allreduce(travelling, options), {travelling[0], tensor}, {});
  }

  Work reduce_scatter(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                      std::optional<at::ScalarType> wire) override {
    check_reduce_scatter(*this, input, counts, output, wire);
    const at::ScalarType type = wire.value_or(input.scalar_type());
    at::Tensor travelling = on_device(input, type);
    at::Tensor sum = landing(output, type);
    if (all_equal(counts)) return start("reduce_scatter", groups_.collectives->_reduce_scatter_base(sum, travelling), {sum, output}, {travelling});
    std::vector<at::Tensor> sums{sum};
    std::vector<std::vector<at::Tensor>> parts{parts_of(travelling, counts)};
    return start("reduce_scatter", groups_.collectives->reduce_scatter(sums, parts), {sum, output}, {travelling});
  }

  Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) override {
    check_all_gather(*this, input, counts, output);
    at::Tensor own = on_device(input, input.scalar_type());
    at::Tensor all = landing(output, output.scalar_type());
    if (all_equal(counts)) {
      at::Tensor own_bytes = bytes_of(own), all_bytes = bytes_of(all);
      return start("all_gather", groups_.collectives->_allgather_base(all_bytes, own_bytes), {all, output}, {own});
    }
    std::vector<std::vector<at::Tensor>> parts{bytes_of(parts_of(all, counts))};
    std::vector<at::Tensor> inputs{bytes_of(own)};
    return start("all_gather", groups_.collectives->allgather(parts, inputs), {all, output}, {own});
  }

  Work broadcast(const at::Tensor& tensor, int root) override {
    check_broadcast(*this, tensor, root);
    const at::Tensor travelling = on_device(tensor, tensor.scalar_type());
    std::vector<at::Tensor> list{bytes_of(travelling)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return start("broadcast", groups_.collectives->broadcast(list, options), {travelling, tensor}, {});
  }

  Work all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                  std::span<const std::int64_t> output_counts) override {
    check_all_to_all(*this, input, input_counts, output, output_counts);
    const at::Tensor outgoing = on_device(input, input.scalar_type());
    const at::Tensor incoming = landing(output, output.scalar_type());
    const auto in_bytes = [&](std::span<const std::int64_t> counts) {
      std::vector<std::int64_t> bytes(counts.begin(), counts.end());
      for (std::int64_t& count : bytes) count *= static_cast<std::int64_t>(input.element_size());
      return bytes;
    };
    at::Tensor outgoing_bytes = bytes_of(outgoing), incoming_bytes = bytes_of(incoming);
    std::vector<std::int64_t> sent = in_bytes(input_counts), received = in_bytes(output_counts);
    return start("all_to_all", groups_.collectives->alltoall_base(incoming_bytes, outgoing_bytes, received, sent), {incoming, output}, {outgoing});
  }

  Work send(const at::Tensor& tensor, int to) override {
    check_message(*this, tensor, to);
    const at::Tensor travelling = on_device(tensor, tensor.scalar_type());
    std::vector<at::Tensor> list{bytes_of(travelling)};
    return start("send", messages(rank(), to).send(list, to, 0), {}, {travelling});
  }

  Work receive(const at::Tensor& tensor, int from) override {
    check_message(*this, tensor, from);
    const at::Tensor travelling = landing(tensor, tensor.scalar_type());
    std::vector<at::Tensor> list{bytes_of(travelling)};
    return start("receive", messages(from, rank()).recv(list, from, 0), {travelling, tensor}, {});
  }

  void barrier() override { sum_of_nothing().wait(); }

 private:
  /// The tensor, flat, on this rank's GPU and in this dtype: itself where it is so already.
  at::Tensor on_device(const at::Tensor& tensor, at::ScalarType type) const {
    return tensor.to(at::TensorOptions().device(device_).dtype(type)).view({-1});
  }
  /// Where NCCL writes what belongs into `output`: there, or into memory to be delivered from.
  at::Tensor landing(const at::Tensor& output, at::ScalarType type) const {
    if (output.device() == device_ && output.scalar_type() == type) return output.view({-1});
    return at::empty({output.numel()}, at::TensorOptions().device(device_).dtype(type));
  }
  /// What only moves travels as bytes: NCCL does not know every dtype.
  static at::Tensor bytes_of(const at::Tensor& flat) { return flat.view(at::kByte); }
  static std::vector<at::Tensor> bytes_of(std::vector<at::Tensor> parts) {
    for (at::Tensor& part : parts) part = bytes_of(part);
    return parts;
  }

  /// NCCL has no barrier; every rank's part in a sum is one. Read in host memory, so that `wait` waits.
  Work sum_of_nothing() { return all_reduce(at::zeros({1}, at::kFloat), ReduceOperation::Sum, std::nullopt); }

  Work start(const char* operation, c10::intrusive_ptr<c10d::Work> work, Delivery delivery, std::vector<at::Tensor> kept) {
    std::string what = fmt::format("{} #{} over {} (ranks {})", operation, operations_++, name_, fmt::join(members_, " "));
    // A view of the caller's own memory needs no delivery.
    if (delivery.to.defined() && delivery.to.data_ptr() == delivery.from.data_ptr()) delivery.to = delivery.from;
    return Work(std::make_shared<NcclOperation>(std::move(work), std::move(what), std::move(delivery), std::move(kept)));
  }

  c10d::ProcessGroupNCCL& messages(int from, int to) const { return from < to ? *groups_.upward : *groups_.downward; }

  Groups groups_;
  c10::Device device_;
  std::vector<std::int64_t> members_;
  std::string name_;
  std::uint64_t operations_ = 0;
};

StorePtr meet(const launch::RankEnvironment& place, const launch::Rendezvous& meeting, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = meeting.port;
  options.isServer = place.rank == 0 && !meeting.served;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::PrefixStore>(meeting.prefix, c10::make_intrusive<c10d::TCPStore>(meeting.address, options));
  } catch (const c10::Error& error) {
    throw Failure({"", fmt::format("cannot meet the other ranks at {}:{}: {}", meeting.address, meeting.port, first_line(error)), "",
                   "check that MASTER_ADDR names the host of rank 0 and that MASTER_PORT is free there and open to all hosts"});
  }
}

class NcclBackend : public Backend {
 public:
  NcclBackend(const launch::RankEnvironment& place, const launch::Rendezvous& meeting, std::chrono::milliseconds timeout)
      : place_(place),
        device_(c10::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank)),
        timeout_(timeout),
        exceptions_at_start_(std::uncaught_exceptions()),
        store_(meet(place, meeting, timeout)) {
    c10::cuda::set_device(device_.index());
  }
  /// Rank 0 may hold the store: it leaves last.
  ~NcclBackend() override {
    if (std::uncaught_exceptions() > exceptions_at_start_) return;
    try {
      if (store_->add("left", 1) == place_.world_size) store_->set("all_left", "yes");
      if (place_.rank == 0) store_->wait({"all_left"}, timeout_);
    } catch (const std::exception&) {
      // Another rank failed, and says so itself.
    }
  }
  std::int64_t rank() const override { return place_.rank; }
  std::int64_t world_size() const override { return place_.world_size; }
  std::int64_t local_rank() const override { return place_.local_rank; }
  std::int64_t local_size() const override { return place_.local_size; }

  std::unique_ptr<Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) override {
    const auto own = std::ranges::find(members, rank());
    TESSERA_ASSERT(own != members.end(), "a rank makes only communicators that it is in");
    // Its members make the same groups in the same order, so they agree on this without talking.
    const std::string prefix = fmt::format("{}#{}", fmt::join(members, ","), num_communicators_[members]++);
    const int own_number = static_cast<int>(own - members.begin());
    Groups groups{group(prefix, own_number, members), group(prefix + " up", own_number, members), group(prefix + " down", own_number, members)};
    return std::make_unique<NcclCommunicator>(std::move(groups), device_, members, name);
  }

  void abort(int status) override { std::_Exit(status); }

 private:
  GroupPtr group(const std::string& prefix, int own_number, const std::vector<std::int64_t>& members) {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout_;
    options->group_name = prefix;
    options->global_ranks_in_group.assign(members.begin(), members.end());
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(prefix, store_), own_number,
                                                       static_cast<int>(members.size()), options);
  }

  launch::RankEnvironment place_;
  c10::Device device_;
  std::chrono::milliseconds timeout_;
  int exceptions_at_start_;
  StorePtr store_;
  std::map<std::vector<std::int64_t>, int> num_communicators_;  ///< made over these members
};

}  // namespace

int num_gpus() { return c10::cuda::device_count(); }

std::unique_ptr<Backend> nccl_backend(const launch::RankEnvironment& place, const launch::Rendezvous& meeting, double timeout_seconds) {
  if (place.local_rank >= num_gpus()) {
    throw UserError({"", fmt::format("rank {} is number {} of its host, which has {} GPUs", place.rank, place.local_rank, num_gpus()),
                     "every rank has a GPU of its own", fmt::format("start {} ranks on this host, or hide no GPU from them", num_gpus())});
  }
  return std::make_unique<NcclBackend>(place, meeting, std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1e3)));
}

}  // namespace tessera::comm
