#include "tessera/comm/benchmark.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <functional>

#include "tessera/core/clock.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kFewestRepetitions = 3;
constexpr std::int64_t kMostRepetitions = 2000;

/// The tensors of one size and the operations on them.
struct Subject {
  Communicator& communicator;
  at::Tensor whole;
  at::Tensor other;
  std::vector<std::int64_t> counts;  ///< equal

  std::int64_t bytes() const { return static_cast<std::int64_t>(whole.nbytes()); }
  at::Tensor part(const at::Tensor& tensor) const { return tensor.narrow(0, communicator.rank() * counts[0], counts[0]); }
  void run(OperationKind kind) const;
};

void Subject::run(OperationKind kind) const {
  const int size = communicator.size();
  switch (kind) {
    case OperationKind::AllReduce:
      return communicator.all_reduce(whole).wait();
    case OperationKind::ReduceScatter:
      return communicator.reduce_scatter(whole, counts, part(other)).wait();
    case OperationKind::AllGather:
      return communicator.all_gather(part(whole), counts, whole).wait();
    case OperationKind::Broadcast:
      return communicator.broadcast(whole, 0).wait();
    case OperationKind::AllToAll:
      return communicator.all_to_all(whole, counts, other, counts).wait();
    case OperationKind::Send: {
      Work sent = communicator.send(whole, (communicator.rank() + 1) % size);
      communicator.receive(other, (communicator.rank() + size - 1) % size).wait();
      return sent.wait();
    }
    default:
      return communicator.barrier();
  }
}

/// Bytes over each link, by the definition in the header.
double link_bytes(OperationKind kind, int size, std::int64_t bytes) {
  const double others = static_cast<double>(size - 1) / size * static_cast<double>(bytes);
  switch (kind) {
    case OperationKind::AllReduce:
      return 2.0 * others;
    case OperationKind::ReduceScatter:
    case OperationKind::AllGather:
    case OperationKind::AllToAll:
      return others;
    case OperationKind::Barrier:
      return 0.0;
    default:
      return static_cast<double>(bytes);
  }
}

double seconds_of(const Subject& subject, OperationKind kind) {
  const Clock::time_point start = Clock::now();
  subject.run(kind);
  return seconds_since(start);
}

/// The largest of the ranks' values, in place.
void maximum_over_ranks(Communicator& communicator, std::vector<double>& values) {
  at::Tensor tensor = at::zeros({static_cast<std::int64_t>(values.size())}, at::TensorOptions(at::kDouble));
  std::ranges::copy(values, tensor.data_ptr<double>());
  communicator.all_reduce(tensor, ReduceOperation::Max).wait();
  std::copy_n(tensor.data_ptr<double>(), values.size(), values.begin());
}

BenchmarkPoint measure(const Subject& subject, OperationKind kind, double budget) {
  Communicator& communicator = subject.communicator;
  subject.run(kind);
  // All ranks must repeat equally often.
  std::vector<double> first{seconds_of(subject, kind)};
  maximum_over_ranks(communicator, first);
  const auto repetitions =
      static_cast<std::int64_t>(std::clamp(budget / first[0], static_cast<double>(kFewestRepetitions), static_cast<double>(kMostRepetitions)));
  std::vector<double> seconds(static_cast<std::size_t>(repetitions));
  for (double& one : seconds) one = seconds_of(subject, kind);
  maximum_over_ranks(communicator, seconds);
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const std::int64_t bytes = kind == OperationKind::Barrier ? 0 : subject.bytes();
  return {
      kind, communicator.name(), communicator.size(), bytes, repetitions, median, seconds[0], link_bytes(kind, communicator.size(), bytes) / median};
}

}  // namespace

std::vector<BenchmarkPoint> benchmark(Communicator& communicator, const BenchmarkOptions& options) {
  std::vector<BenchmarkPoint> points;
  for (const std::int64_t size : options.sizes) {
    const std::int64_t part = std::max<std::int64_t>(1, size / static_cast<std::int64_t>(sizeof(float)) / communicator.size());
    const at::Tensor whole = at::zeros({part * communicator.size()}, at::TensorOptions(at::kFloat));
    const Subject subject{communicator, whole, at::zeros_like(whole), std::vector<std::int64_t>(static_cast<std::size_t>(communicator.size()), part)};
    for (const OperationKind kind : {OperationKind::AllReduce, OperationKind::ReduceScatter, OperationKind::AllGather, OperationKind::Broadcast,
                                     OperationKind::AllToAll, OperationKind::Send})
      points.push_back(measure(subject, kind, options.seconds));
    if (size == options.sizes.front()) points.push_back(measure(subject, OperationKind::Barrier, options.seconds));
  }
  return points;
}

}  // namespace tessera::comm
