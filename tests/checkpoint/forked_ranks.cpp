#include "checkpoint/forked_ranks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "tessera/core/error.h"

namespace tessera::test {
namespace {

constexpr std::size_t kMaxRanks = 8;
constexpr std::size_t kCapacity = std::size_t{1} << 20;

/// What the processes share; the kernel gives it zeroed.
struct Shared {
  std::atomic<bool> dead;
  std::atomic<int> arrived;
  std::atomic<int> generation;
  std::array<std::int64_t, kMaxRanks> answers;
  std::array<std::array<std::byte, kCapacity>, kMaxRanks> data;
};

class SharedMemory {
 public:
  SharedMemory() : memory_(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
  }
  ~SharedMemory() { ::munmap(memory_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared& operator*() const { return *static_cast<Shared*>(memory_); }

 private:
  void* memory_;
};

class ForkedCommunicator : public comm::Communicator {
 public:
  ForkedCommunicator(Shared& shared, int rank, int size) : shared_(shared), rank_(rank), members_(static_cast<std::size_t>(size)) {
    std::iota(members_.begin(), members_.end(), 0);
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& name() const override { return name_; }
  const std::vector<std::int64_t>& members() const override { return members_; }

  comm::Work all_reduce(const at::Tensor& tensor, comm::ReduceOperation operation, std::optional<at::ScalarType>) override {
    TESSERA_ASSERT(operation == comm::ReduceOperation::Sum, "only sums");
    if (tensor.scalar_type() == at::kDouble)
      sum<double>(tensor);
    else
      sum<std::int64_t>(tensor);
    return {};
  }
  comm::Work all_gather(const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) override {
    TESSERA_ASSERT(input.scalar_type() == at::kByte && static_cast<std::size_t>(input.numel()) <= kCapacity, "short texts only");
    if (input.numel() > 0) std::memcpy(data(rank_), input.data_ptr(), static_cast<std::size_t>(input.numel()));
    barrier();
    auto* next = static_cast<std::byte*>(output.data_ptr());
    for (int rank = 0; rank < size(); ++rank) {
      if (counts[static_cast<std::size_t>(rank)] > 0) std::memcpy(next, data(rank), static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]));
      next += counts[static_cast<std::size_t>(rank)];
    }
    barrier();
    return {};
  }
  void barrier() override {
    const int generation = shared_.generation;
    if (++shared_.arrived == size()) {
      shared_.arrived = 0;
      ++shared_.generation;
    }
    while (shared_.generation == generation) {
      if (shared_.dead) throw Failure({"", "a rank died", "", ""});
      ::sched_yield();
    }
  }
  comm::Work reduce_scatter(const at::Tensor&, std::span<const std::int64_t>, const at::Tensor&, std::optional<at::ScalarType>) override { cannot(); }
  comm::Work broadcast(const at::Tensor&, int) override { cannot(); }
  comm::Work all_to_all(const at::Tensor&, std::span<const std::int64_t>, const at::Tensor&, std::span<const std::int64_t>) override { cannot(); }
  comm::Work send(const at::Tensor&, int) override { cannot(); }
  comm::Work receive(const at::Tensor&, int) override { cannot(); }

 private:
  [[noreturn]] static void cannot() { throw std::logic_error("saving does not need this operation"); }
  std::byte* data(int rank) const { return shared_.data[static_cast<std::size_t>(rank)].data(); }
  template <class T>
  void sum(const at::Tensor& tensor) {
    auto* const values = static_cast<T*>(tensor.data_ptr());
    const auto count = static_cast<std::size_t>(tensor.numel());
    std::memcpy(data(rank_), values, count * sizeof(T));
    barrier();
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = 0;
      for (int rank = 0; rank < size(); ++rank) values[i] += reinterpret_cast<const T*>(data(rank))[i];
    }
    barrier();
  }

  Shared& shared_;
  int rank_;
  std::vector<std::int64_t> members_;
  std::string name_ = "forked";
};

[[noreturn]] void run_rank(Shared& shared, int rank, int num_ranks, const std::function<std::int64_t(comm::Communicator&)>& work) {
  int status = 0;
  try {
    at::set_num_threads(1);  // threads do not survive a fork
    ForkedCommunicator group(shared, rank, num_ranks);
    shared.answers[static_cast<std::size_t>(rank)] = work(group);
  } catch (const std::exception& error) {
    fmt::print("rank {}: {}\n", rank, error.what());
    std::fflush(stdout);
    status = 3;
  }
  ::_exit(status);  // without the destructors of what belongs to the test
}

}  // namespace

std::vector<RankEnd> run_forked(int num_ranks, const std::function<std::int64_t(comm::Communicator& group)>& work) {
  const SharedMemory memory;
  Shared& shared = *memory;
  std::fflush(stdout);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const pid_t process = ::fork();
    if (process < 0) throw std::runtime_error("cannot fork");
    if (process == 0) run_rank(shared, rank, num_ranks, work);
    processes.push_back(process);
  }
  std::vector<RankEnd> ends(processes.size());
  for (std::size_t ended = 0; ended < processes.size(); ++ended) {
    int status = 0;
    const pid_t process = ::waitpid(-1, &status, 0);
    const auto rank = static_cast<std::size_t>(std::find(processes.begin(), processes.end(), process) - processes.begin());
    TESSERA_ASSERT(rank < ends.size(), "a child of this test");
    ends[rank] = {.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, .status = WEXITSTATUS(status), .answer = shared.answers[rank]};
    if (ends[rank].killed || ends[rank].status != 0) shared.dead = true;
  }
  return ends;
}

}  // namespace tessera::test
