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
  /// Of an embedding that is the head as well: its gradient is there from the loss to the embedding's backward.
  std::int64_t tied_weights = 0, tied_gradients = 0;

  std::int64_t last() const { return static_cast<std::int64_t>(weights.size()) - 1; }
};

Units units_of(const model::ParameterTable& table, const model::ParameterPredicate& frozen) {
  Units units;
  units.weights.resize(static_cast<std::size_t>(table.num_units));
  units.gradients = units.weights;
  for (const model::ParameterSpec& parameter : table.parameters) {
    const auto unit = static_cast<std::size_t>(parameter.unit);
    units.weights[unit] += parameter.num_elements();
    if (!frozen || !frozen(parameter)) units.gradients[unit] += parameter.num_elements();
  }
  if (!table.tied_head) return units;
  units.weights.back() += units.weights.front();
  units.tied_weights = units.weights.front();
  units.tied_gradients = std::exchange(units.gradients.front(), 0);
  return units;
}

/// Sum over units first to last, where they exist.
std::int64_t between(const std::vector<std::int64_t>& units, std::int64_t first, std::int64_t last) {
  const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min<std::int64_t>(last + 1, static_cast<std::int64_t>(units.size()));
  return begin >= end ? 0 : std::accumulate(units.begin() + begin, units.begin() + end, std::int64_t{0});
}

/// How many reductions run during the passes.
std::int64_t reductions_under_way(const DataParallelPolicy& policy) {
  return policy.overlap_reduce ? static_cast<std::int64_t>(kReductionsUnderWay) : 0;
}

/// Bytes of an element.
struct ElementBytes {
  std::int64_t weight = 0;    ///< gathered; 0 where weights stay whole
  std::int64_t gradient = 0;  ///< whole until it is reduced; 0 where gradients stay whole
};

/// Whole weights and gradients, as bytes, over the units' forward and backward passes of a microbatch in the middle of a step.
class Passes {
 public:
  Passes(const Units& units, const DataParallelPolicy& policy, ElementBytes bytes, std::int64_t num_shards, std::int64_t num_microbatches)
      : units_(units), policy_(policy), bytes_(bytes), num_shards_(num_shards), num_microbatches_(num_microbatches) {}

  /// It reads the last unit's weights and writes its gradients.
  std::int64_t loss() const {
    if (keeps_stages()) return everything();
    const std::int64_t first = policy_.reshard_after_forward ? units_.last() : 0;
    return bytes_.weight * weights(first, units_.last()) + own_gradient(units_.last()) + gradients_under_way(units_.last());
  }
  std::int64_t most() const {
    if (keeps_stages()) return everything();
    std::int64_t most = 0;
    for (std::int64_t unit = 0; unit <= units_.last(); ++unit) most = std::max({most, forward(unit), backward(unit)});
    return most;
  }

 private:
  bool keeps_stages() const { return policy_.by_stage && !policy_.reshard_after_forward; }
  /// All that a rank of a pipeline has, at once.
  std::int64_t everything() const { return bytes_.weight * weights(0, units_.last()); }
  std::int64_t forward(std::int64_t unit) const {
    const std::int64_t first = policy_.reshard_after_forward ? unit : 0;
    return bytes_.weight * weights(first, unit + policy_.forward_prefetch_depth) + gradients_under_way(units_.last());
  }
  std::int64_t backward(std::int64_t unit) const {
    // The embedding's backward reads no weights; a tied one is freed with the head.
    std::int64_t first = std::max<std::int64_t>(1, unit - policy_.backward_prefetch_depth);
    if (!policy_.reshard_after_forward) first = units_.tied_weights > 0 && unit < units_.last() ? 1 : 0;
    return bytes_.weight * weights(first, unit) + own_gradient(unit) + gradients_under_way(unit);
  }
  /// A tied embedding is there once.
  std::int64_t weights(std::int64_t first, std::int64_t last) const {
    return between(units_.weights, first, last) - (first == 0 && last >= units_.last() ? units_.tied_weights : 0);
  }
  std::int64_t own_gradient(std::int64_t unit) const {
    return bytes_.gradient * (units_.tied_gradients + units_.gradients[static_cast<std::size_t>(unit)]);
  }
  /// Of the units whose backward came before this one's: those after it, or at the start of a later microbatch the first ones, of the one before.
  /// From the second microbatch on a sum arrives in memory of its own, besides the one that it is added to.
  std::int64_t gradients_under_way(std::int64_t unit) const {
    std::int64_t bytes = 0;
    for (std::int64_t other = unit + 1; other <= unit + reductions_under_way(policy_); ++other) {
      const std::int64_t wrapped = other - units_.last() - 1;
      if (wrapped < 0) bytes += reduced(units_.gradients[static_cast<std::size_t>(other)], num_microbatches_ > 1);
      if (wrapped >= 0 && num_microbatches_ > 1 && wrapped < units_.last())
        bytes += reduced(units_.gradients[static_cast<std::size_t>(wrapped)] + (wrapped == 0 ? units_.tied_gradients : 0), num_microbatches_ > 2);
    }
    return bytes;
  }
  std::int64_t reduced(std::int64_t elements, bool beside_another) const {
    return bytes_.gradient * (elements + (beside_another ? elements / num_shards_ : 0));
  }

  const Units& units_;
  const DataParallelPolicy& policy_;
  ElementBytes bytes_;
  std::int64_t num_shards_, num_microbatches_;
};

/// What a reduction of `elements` among `size` ranks keeps of them (comm/exchange.h).
std::int64_t message_bytes(std::int64_t elements, std::int64_t size, std::int64_t wire_bytes, bool rounded) {
  if (size == 1) return 0;
  return wire_bytes * (elements * (size - 1) / size + (rounded ? elements : 0));
}

}  // namespace

TransientMemory transient_memory(const model::ParameterTable& table, const DataParallelPolicy& policy, const model::Placement& placement,
                                 DType compute, std::int64_t num_microbatches, const model::ParameterPredicate& frozen) {
  const Units units = units_of(table, frozen);
  const std::int64_t master_bytes = compute == DType::F64 ? 8 : 4;
  const ElementBytes bytes{.weight = placement.whole_weights ? 0 : static_cast<std::int64_t>(size_of(compute)),
                           .gradient = placement.whole_gradients ? 0 : master_bytes};
  const Passes passes(units, policy, bytes, placement.num_shards, num_microbatches);

  std::int64_t sent_at_once = units.tied_gradients;
  for (std::int64_t unit = 0; unit <= units.last(); ++unit)
    sent_at_once = std::max(sent_at_once, between(units.gradients, unit, unit + reductions_under_way(policy)));
  const auto wire_bytes = policy.wire ? static_cast<std::int64_t>(c10::elementSize(*policy.wire)) : master_bytes;
  const auto messages = [&](std::int64_t elements, std::int64_t size) { return message_bytes(elements, size, wire_bytes, policy.wire.has_value()); };
  return {.gathered_at_loss = passes.loss(),
          .gathered_in_passes = passes.most(),
          .messages = std::max(messages(sent_at_once, placement.num_shards), messages(sent_at_once / placement.num_shards, placement.num_replicas))};
}

}  // namespace tessera::parallel
