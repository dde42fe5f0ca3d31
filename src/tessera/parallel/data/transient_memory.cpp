#include "tessera/parallel/data/transient_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tessera::parallel {
namespace {

/// Elements of each unit's weights as its operators read them (a tied head's unit reads the embedding too), and of its gradients as they are reduced.
struct Units {
  std::vector<std::int64_t> weights, gradients;
  std::int64_t tied = 0;  ///< of an embedding that is the head as well: its gradient is there from the loss to the embedding's backward

  std::int64_t last() const { return static_cast<std::int64_t>(weights.size()) - 1; }
};

Units units_of(const model::ParameterTable& table) {
  Units units;
  units.weights.resize(static_cast<std::size_t>(table.num_units));
  for (const model::ParameterSpec& parameter : table.parameters) units.weights[static_cast<std::size_t>(parameter.unit)] += parameter.num_elements();
  units.gradients = units.weights;
  if (!table.tied_head) return units;
  units.weights.back() += units.weights.front();
  units.tied = std::exchange(units.gradients.front(), 0);
  return units;
}

/// Sum over units first to last, where they exist.
std::int64_t between(const std::vector<std::int64_t>& units, std::int64_t first, std::int64_t last) {
  const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min<std::int64_t>(last + 1, static_cast<std::int64_t>(units.size()));
  return begin >= end ? 0 : std::accumulate(units.begin() + begin, units.begin() + end, std::int64_t{0});
}

/// Whole gradients at once: of the unit whose backward runs, and those under way.
std::int64_t gradients_at_once(const DataParallelPolicy& policy) {
  return 1 + (policy.overlap_reduce ? static_cast<std::int64_t>(kReductionsUnderWay) : 0);
}

/// The most elements of weights and gradients, as bytes, over the units' forward and backward passes.
class Passes {
 public:
  Passes(const Units& units, const DataParallelPolicy& policy, std::int64_t weight_bytes, std::int64_t gradient_bytes)
      : units_(units), policy_(policy), weight_bytes_(weight_bytes), gradient_bytes_(gradient_bytes) {}

  /// It reads the last unit's weights and writes its gradients.
  std::int64_t loss() const {
    const std::int64_t first = policy_.reshard_after_forward ? units_.last() : 0;
    return weight_bytes_ * weights(first, units_.last()) + gradient_bytes_ * (units_.tied + units_.gradients.back());
  }
  std::int64_t most() const {
    std::int64_t most = 0;
    for (std::int64_t unit = 0; unit <= units_.last(); ++unit) most = std::max({most, forward(unit), backward(unit)});
    return most;
  }

 private:
  std::int64_t forward(std::int64_t unit) const {
    const std::int64_t first = policy_.reshard_after_forward ? unit : 0;
    return weight_bytes_ * weights(first, unit + policy_.forward_prefetch_depth);
  }
  std::int64_t backward(std::int64_t unit) const {
    // The embedding's backward reads no weights.
    const std::int64_t first = policy_.reshard_after_forward ? std::max<std::int64_t>(1, unit - policy_.backward_prefetch_depth) : 0;
    const std::int64_t gradients = units_.tied + between(units_.gradients, unit, unit + gradients_at_once(policy_) - 1);
    return weight_bytes_ * weights(first, unit) + gradient_bytes_ * gradients;
  }
  /// A tied embedding is there once.
  std::int64_t weights(std::int64_t first, std::int64_t last) const {
    return between(units_.weights, first, last) - (first == 0 && last >= units_.last() ? units_.tied : 0);
  }

  const Units& units_;
  const DataParallelPolicy& policy_;
  std::int64_t weight_bytes_, gradient_bytes_;
};

/// What a reduction of `elements` among `size` ranks keeps of them (comm/exchange.h).
std::int64_t message_bytes(std::int64_t elements, std::int64_t size, std::int64_t wire_bytes, bool rounded) {
  if (size == 1) return 0;
  return wire_bytes * (elements * (size - 1) / size + (rounded ? elements : 0));
}

}  // namespace

TransientMemory transient_memory(const model::ParameterTable& table, const DataParallelPolicy& policy, const model::Placement& placement,
                                 DType compute, std::int64_t num_microbatches) {
  const Units units = units_of(table);
  const std::int64_t master_bytes = compute == DType::F64 ? 8 : 4;
  const std::int64_t weight_bytes = placement.whole_weights ? 0 : static_cast<std::int64_t>(size_of(compute));
  const std::int64_t gradient_bytes = placement.whole_gradients ? 0 : master_bytes;
  const Passes passes(units, policy, weight_bytes, gradient_bytes);
  TransientMemory memory{.gathered_at_loss = passes.loss(), .gathered_in_passes = passes.most()};

  std::int64_t reduced_at_once = units.tied;
  for (std::int64_t unit = 0; unit <= units.last(); ++unit)
    reduced_at_once = std::max(reduced_at_once, between(units.gradients, unit, unit + gradients_at_once(policy) - 1));
  const std::int64_t shards = placement.num_shards;
  // Later microbatches' sums arrive beside the one that they are added to.
  if (policy.reduce_every_microbatch && num_microbatches > 1 && shards > 1) memory.gathered_in_passes += master_bytes * reduced_at_once / shards;
  const auto wire_bytes = policy.wire ? static_cast<std::int64_t>(c10::elementSize(*policy.wire)) : master_bytes;
  memory.messages = std::max(message_bytes(reduced_at_once, shards, wire_bytes, policy.wire.has_value()),
                             message_bytes(reduced_at_once / shards, placement.num_replicas, wire_bytes, policy.wire.has_value()));
  return memory;
}

}  // namespace tessera::parallel
