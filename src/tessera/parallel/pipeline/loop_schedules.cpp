// Schedules whose stages lie in a loop: chunk c of a rank is stage c · num_ranks + rank.
#include <algorithm>

#include "tessera/parallel/pipeline/action_lists.h"

namespace tessera::pipeline {
namespace {

/// The order in which a rank of an interleaved schedule runs its forward passes, and likewise its backward passes: a round of microbatches through
/// the first chunk, the same through the next one, and when all chunks have had them the next round. Backward begins with the last chunk.
class RoundOrder {
 public:
  RoundOrder(const ScheduleSize& size, int rank) : size_(size), rank_(rank), per_round_(microbatches_per_round(size)) {}

  int num_passes() const { return size_.num_microbatches * size_.stages_per_rank; }
  Action forward(int index) const { return {stage(chunk(index)), ActionKind::Forward, microbatch(index)}; }
  Action backward(int index, ActionKind kind) const { return {stage(size_.stages_per_rank - 1 - chunk(index)), kind, microbatch(index)}; }

 private:
  int stage(int chunk) const { return chunk * size_.num_ranks + rank_; }
  int chunk(int index) const { return index / per_round_ % size_.stages_per_rank; }
  int microbatch(int index) const { return index / (per_round_ * size_.stages_per_rank) * per_round_ + index % per_round_; }

  ScheduleSize size_;
  int rank_;
  int per_round_;
};

/// `warmup` forward passes, then one forward and one backward in turn, then the backward passes that are left.
template <class AppendBackward>
ActionList with_warmup(const RoundOrder& order, int warmup, AppendBackward append_backward) {
  ActionList actions;
  warmup = std::min(warmup, order.num_passes());
  for (int index = 0; index < warmup; ++index) actions.push_back(order.forward(index));
  for (int index = 0; index < order.num_passes(); ++index) {
    if (index + warmup < order.num_passes()) actions.push_back(order.forward(index + warmup));
    append_backward(actions, index);
  }
  return actions;
}

ActionList with_whole_backward(const RoundOrder& order, int warmup) {
  return with_warmup(order, warmup, [&](ActionList& actions, int index) { actions.push_back(order.backward(index, ActionKind::Backward)); });
}

/// Forward passes of a round that a rank makes before the last chunk's first one.
int passes_before_last_chunk(const ScheduleSize& size) { return (size.stages_per_rank - 1) * microbatches_per_round(size); }

}  // namespace

int microbatches_per_round(const ScheduleSize& size) {
  const int rounds = std::max(1, size.num_microbatches / size.num_ranks);
  return size.num_microbatches / rounds;
}

ActionList gpipe(const ScheduleSize& size, int rank) {
  ActionList actions;
  for (int microbatch = 0; microbatch < size.num_microbatches; ++microbatch) actions.push_back({rank, ActionKind::Forward, microbatch});
  for (int microbatch = 0; microbatch < size.num_microbatches; ++microbatch) actions.push_back({rank, ActionKind::Backward, microbatch});
  return actions;
}

ActionList one_forward_one_backward(const ScheduleSize& size, int rank) {
  return with_whole_backward(RoundOrder(size, rank), size.num_ranks - 1 - rank);
}

ActionList interleaved_one_forward_one_backward(const ScheduleSize& size, int rank) {
  // A backward pass arrives two passes later for every rank between this one and the last.
  return with_whole_backward(RoundOrder(size, rank), passes_before_last_chunk(size) + 2 * (size.num_ranks - 1 - rank));
}

ActionList looped_breadth_first(const ScheduleSize& size, int rank) {
  ActionList actions;
  for (int chunk = 0; chunk < size.stages_per_rank; ++chunk)
    for (int microbatch = 0; microbatch < size.num_microbatches; ++microbatch)
      actions.push_back({chunk * size.num_ranks + rank, ActionKind::Forward, microbatch});
  for (int chunk = size.stages_per_rank - 1; chunk >= 0; --chunk)
    for (int microbatch = size.num_microbatches - 1; microbatch >= 0; --microbatch)
      actions.push_back({chunk * size.num_ranks + rank, ActionKind::Backward, microbatch});
  return actions;
}

ActionList interleaved_zero_bubble(const ScheduleSize& size, int rank) {
  const RoundOrder order(size, rank);
  // Later ranks store fewer microbatches under 1F1B; here they put off as many weight gradients as make up for it.
  const int deferred = std::min(rank, order.num_passes());
  ActionList actions = with_warmup(order, passes_before_last_chunk(size) + size.num_ranks - 1 - rank, [&](ActionList& list, int index) {
    list.push_back(order.backward(index, ActionKind::InputGradient));
    if (index >= deferred) list.push_back(order.backward(index - deferred, ActionKind::WeightGradient));
  });
  for (int index = order.num_passes() - deferred; index < order.num_passes(); ++index)
    actions.push_back(order.backward(index, ActionKind::WeightGradient));
  return actions;
}

}  // namespace tessera::pipeline
