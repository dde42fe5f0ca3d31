#include "tessera/comm/mpi_engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "tessera/comm/mpi_carrier.h"
#include "tessera/core/random.h"

namespace tessera::comm {
namespace {

constexpr int kYields = 500;
constexpr std::chrono::microseconds kShortestSleep{20};
constexpr std::chrono::microseconds kLongestSleep{1000};
/// When no operation is under way: MPI may still have to push out what it buffered.
constexpr std::chrono::microseconds kLongestIdleSleep{20000};

/// Whether this process may read the memory of its own kind: containers often forbid the call, and Open MPI finds out only by failing.
bool may_read_processes() {
  char from = 0;
  char to = 0;
  const iovec remote{&from, 1};
  const iovec local{&to, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

/// What Open MPI must be told before it starts; what the user has set stays.
void set_mpi_environment() {
  // Idle ranks give their core away inside MPI's own blocking calls too, which only `mpirun --oversubscribe` would turn on by itself.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  if (!may_read_processes()) ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

/// Signals are for the threads that compute; MPI's own threads inherit this.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

MpiWorld initialise_mpi() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  int rank = 0, size = 0, local_rank = 0, local_size = 0;
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &local_rank);
  MPI_Comm_size(host, &local_size);
  MPI_Comm_free(&host);
  // Failing calls are reported by the operations they belong to.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return {rank, size, local_rank, local_size};
}

/// How long to rest after how many fruitless looks.
class Rest {
 public:
  void reset() { looks_ = 0, sleep_ = kShortestSleep; }
  /// Yields, and returns zero, or returns how long to sleep.
  std::chrono::microseconds next(bool busy) {
    if (busy && ++looks_ <= kYields) {
      ::sched_yield();
      return {};
    }
    const auto sleep = sleep_;
    sleep_ = std::min(sleep_ * 3 / 2, busy ? kLongestSleep : kLongestIdleSleep);
    return sleep;
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds sleep_ = kShortestSleep;
};

}  // namespace

struct MpiEngine::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Flight>> requests;
  bool stop = false;
  bool finalise = false;
  std::optional<int> abort_status;
  std::promise<MpiWorld> world;
  std::atomic<bool> has_failed{false};
};

MpiEngine::MpiEngine(const MpiOptions& options)
    : options_(options), exceptions_at_start_(std::uncaught_exceptions()), shared_(std::make_unique<Shared>()) {
  set_mpi_environment();
  std::future<MpiWorld> world = shared_->world.get_future();
  thread_ = std::thread([this] { run(*shared_); });
  world_ = world.get();
}

MpiEngine::~MpiEngine() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  const bool finalise = !unwinding && all_arrive_at_the_end();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->finalise = finalise;
  }
  shared_->wake.notify_one();
  thread_.join();
}

/// A rank that waits inside MPI_Finalize would keep a core busy.
bool MpiEngine::all_arrive_at_the_end() try {
  GroupInfo everyone{.id = 0, .name = "world", .members = {}, .rank = static_cast<int>(world_.rank)};
  for (std::int64_t rank = 0; rank < world_.size; ++rank) everyone.members.push_back(rank);
  const auto flight = std::make_shared<Flight>();
  flight->group = std::make_shared<const GroupInfo>(std::move(everyone));
  flight->sequence = 1;
  flight->exchange = barrier_exchange({static_cast<int>(world_.rank), static_cast<int>(world_.size)});
  flight->patience = shared_->has_failed ? timeout() : Clock::duration::max();
  submit(flight)->wait();
  return true;
} catch (const Failure&) {
  return false;
}

Clock::duration MpiEngine::timeout() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
}

std::shared_ptr<PendingOperation> MpiEngine::submit(std::shared_ptr<const GroupInfo> group, std::uint64_t sequence, Exchange exchange) {
  auto flight = std::make_shared<Flight>();
  flight->group = std::move(group);
  flight->sequence = sequence;
  flight->exchange = std::move(exchange);
  flight->patience = timeout();
  return submit(std::move(flight));
}

std::shared_ptr<PendingOperation> MpiEngine::submit(std::shared_ptr<Flight> flight) {
  std::shared_ptr<PendingOperation> completion = flight->completion;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->requests.push_back(std::move(flight));
  }
  shared_->wake.notify_one();
  return completion;
}

std::shared_ptr<const GroupInfo> MpiEngine::make_group(GroupInfo group) {
  // All start from the same number or a smaller one: the largest that any member would take is free at every member.
  const Place place{group.rank, static_cast<int>(group.members.size())};
  std::vector<std::uint32_t> numbers(group.members.size(), next_group_);
  const std::vector<std::int64_t> counts(group.members.size(), 1);
  const Elements own{&numbers[static_cast<std::size_t>(group.rank)], DType::U32, 1};
  Exchange exchange = all_gather_exchange(place, own, counts, {numbers.data(), DType::U32, static_cast<std::int64_t>(numbers.size())});
  exchange.description.kind = OperationKind::Setup;
  exchange.description.counts_digest = digest_of(group.members) ^ hash_name(group.name);
  group.id = 0;
  submit(std::make_shared<const GroupInfo>(group), 0, std::move(exchange))->wait();
  group.id = *std::ranges::max_element(numbers);
  next_group_ = group.id + 1;
  return std::make_shared<const GroupInfo>(std::move(group));
}

void MpiEngine::abort(int status) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->abort_status = status;
  }
  shared_->wake.notify_one();
  // The thread ends the process; unless it is stuck inside MPI.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  ::_exit(status);
}

void MpiEngine::run(Shared& shared) {
  block_signals();
  // Sleeps of 20 µs are meant; the kernel would make them 70.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  shared.world.set_value(initialise_mpi());
  MpiCarrier carrier(MPI_COMM_WORLD, options_.largest_message);
  Rest rest;
  std::chrono::microseconds sleep{};
  std::vector<std::shared_ptr<Flight>> started;
  while (true) {
    {
      std::unique_lock lock(shared.mutex);
      const auto called = [&] { return !shared.requests.empty() || shared.stop || shared.abort_status; };
      if (sleep.count() > 0) shared.wake.wait_for(lock, sleep, called);
      if (shared.abort_status) MPI_Abort(MPI_COMM_WORLD, *shared.abort_status);
      if (shared.stop && shared.requests.empty() && (!shared.finalise || !carrier.has_flights())) break;
      started.swap(shared.requests);
    }
    for (auto& flight : started) carrier.start(std::move(flight));
    const bool moved = carrier.poll() || !started.empty();
    started.clear();
    if (moved) rest.reset();
    sleep = moved ? std::chrono::microseconds{} : rest.next(carrier.has_messages());
    if (sleep.count() > 0) carrier.fail_overdue(Clock::now());
    shared.has_failed = carrier.has_failed();
  }
  if (shared.finalise) MPI_Finalize();
}

}  // namespace tessera::comm
