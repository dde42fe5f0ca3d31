#include "tessera/comm/checked_communicator.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tessera/comm/forwarding_communicator.h"
#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kBytes = sizeof(OperationDescription);

/// What every rank of a group issued as its operation number `sequence`.
struct Comparison {
  std::uint64_t sequence = 0;
  std::string group;
  std::vector<std::int64_t> members;
  int rank = 0;
  at::Tensor own;           ///< bytes of this rank's description
  at::Tensor descriptions;  ///< of everyone's, in rank order

  OperationDescription of(std::size_t member) const {
    OperationDescription description;
    std::memcpy(static_cast<void*>(&description), descriptions.data_ptr<std::uint8_t>() + static_cast<std::int64_t>(member) * kBytes, kBytes);
    return description;
  }
  void throw_if_different() const;
};

void Comparison::throw_if_different() const {
  const OperationDescription mine = of(static_cast<std::size_t>(rank));
  bool same = true;
  std::string list;
  for (std::size_t member = 0; member < members.size(); ++member) {
    const OperationDescription other = of(member);
    same = same && other.matches(mine);
    list += fmt::format("\n    rank {}: {}", members[member], to_string(other));
    // Two lists of counts with one sum look the same otherwise.
    if (other.counts_digest != mine.counts_digest) list += " (other counts per rank)";
  }
  if (same) return;
  throw Failure({"",
                 fmt::format("rank {}: the ranks issued different operations as #{} over {}:{}", members[static_cast<std::size_t>(rank)], sequence,
                             group, list),
                 "all ranks of a group issue the same operations with the same types and counts, in the same order",
                 "look for a condition in which the ranks differ before this operation"});
}

class CheckedOperation : public PendingOperation {
 public:
  CheckedOperation(Work check, std::shared_ptr<const Comparison> comparison, Work operation)
      : check_(std::move(check)), comparison_(std::move(comparison)), operation_(std::move(operation)) {}
  void wait() override {
    check_.wait();
    comparison_->throw_if_different();
    operation_.wait();
  }
  bool done() const override { return check_.done() && operation_.done(); }
  CompletionTime completed() const override { return std::max(check_.completed(), operation_.completed()); }

 private:
  Work check_;
  std::shared_ptr<const Comparison> comparison_;
  Work operation_;
};

class CheckedCommunicator : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  void barrier() override {
    // The inner barrier returns only when complete: the comparison must come before it.
    const auto comparison = make_comparison({.kind = OperationKind::Barrier});
    tell(*comparison).wait();
    comparison->throw_if_different();
    inner().barrier();
  }

 private:
  Work around(const OperationDescription& description, const std::function<Work()>& start) override {
    if (size() == 1 || description.kind == OperationKind::Send || description.kind == OperationKind::Receive) return start();
    const auto comparison = make_comparison(description);
    Work check = tell(*comparison);
    return Work(std::make_shared<CheckedOperation>(std::move(check), comparison, start()));
  }

  std::shared_ptr<Comparison> make_comparison(OperationDescription description) {
    description.bytes_sent = 0;  // differs by nature
    auto comparison = std::make_shared<Comparison>(Comparison{operations_++, name(), members(), rank(), {}, {}});
    comparison->own = at::empty({kBytes}, at::kByte);
    comparison->descriptions = at::empty({kBytes * size()}, at::kByte);
    std::memcpy(comparison->own.data_ptr<std::uint8_t>(), &description, kBytes);
    return comparison;
  }

  Work tell(const Comparison& comparison) {
    return inner().all_gather(comparison.own, std::vector<std::int64_t>(static_cast<std::size_t>(size()), kBytes), comparison.descriptions);
  }

  std::uint64_t operations_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> checked_communicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<CheckedCommunicator>(std::move(inner));
}

}  // namespace tessera::comm
