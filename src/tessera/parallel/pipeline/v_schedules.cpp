// Schedules whose stages lie in a V: a rank's chunk 0 is on the way down, chunk 1 on the way up, and the last rank has the two stages in the middle.
#include <algorithm>
#include <array>

#include "tessera/parallel/pipeline/action_lists.h"

namespace tessera::pipeline {
namespace {

/// Appends a rank's passes; each chunk takes its microbatches in order. Microbatches beyond the number there are leave no trace, so that a schedule
/// for many microbatches serves fewer.
class Passes {
 public:
  Passes(const ScheduleSize& size, int rank) : stages_{rank, 2 * size.num_ranks - 1 - rank}, num_microbatches_(size.num_microbatches) {}

  void forward(int chunk) { append(chunk, ActionKind::Forward, count(num_forward_, chunk)); }
  void backward(int chunk) { append(chunk, ActionKind::Backward, count(num_backward_, chunk)); }
  /// Its weight gradient is put off.
  void input_gradient(int chunk) {
    const int microbatch = count(num_backward_, chunk);
    append(chunk, ActionKind::InputGradient, microbatch);
    deferred_.push_back({chunk, microbatch});
  }
  /// The one of this chunk that was put off first; nothing when there is none.
  void weight_gradient(int chunk) {
    const auto first = std::ranges::find(deferred_, chunk, &Deferred::chunk);
    if (first != deferred_.end()) run(first);
  }
  /// Likewise of either chunk.
  void weight_gradient() {
    if (!deferred_.empty()) run(deferred_.begin());
  }
  bool has_forwards_left(int chunk, int num_microbatches) const { return num_forward_[static_cast<std::size_t>(chunk)] < num_microbatches; }
  bool has_deferred() const { return !deferred_.empty(); }

  ActionList take() { return std::move(actions_); }

 private:
  struct Deferred {
    int chunk;
    int microbatch;
  };
  static int count(std::array<int, 2>& counts, int chunk) { return counts[static_cast<std::size_t>(chunk)]++; }

  void append(int chunk, ActionKind kind, int microbatch) {
    if (microbatch < num_microbatches_) actions_.push_back({stages_[static_cast<std::size_t>(chunk)], kind, microbatch});
  }
  void run(std::vector<Deferred>::iterator deferred) {
    append(deferred->chunk, ActionKind::WeightGradient, deferred->microbatch);
    deferred_.erase(deferred);
  }

  std::array<int, 2> stages_;
  int num_microbatches_;
  std::array<int, 2> num_forward_{}, num_backward_{};
  std::vector<Deferred> deferred_;
  ActionList actions_;
};

}  // namespace

ActionList zero_bubble_v(const ScheduleSize& size, int rank) {
  Passes passes(size, rank);
  const int ranks_below = size.num_ranks - 1 - rank;
  const int num_microbatches = std::max(size.num_microbatches, 2 * size.num_ranks - 1);
  // Until the first microbatch comes back up; then both ways in turn until the last rank's first gradient arrives.
  for (int i = 0; i < 2 * ranks_below + 1; ++i) passes.forward(0);
  for (int i = 0; i < rank; ++i) {
    passes.forward(1);
    passes.forward(0);
  }
  for (int i = 0; i <= ranks_below; ++i) {
    passes.forward(1);
    passes.input_gradient(1);
    passes.weight_gradient(1);
  }
  while (passes.has_forwards_left(0, num_microbatches) || passes.has_forwards_left(1, num_microbatches)) {
    if (passes.has_forwards_left(0, num_microbatches)) passes.forward(0);
    passes.input_gradient(0);
    passes.weight_gradient(0);
    passes.forward(1);
    passes.input_gradient(1);
    passes.weight_gradient(1);
  }
  for (int i = 0; i < rank; ++i) {
    passes.input_gradient(0);
    passes.input_gradient(1);
  }
  for (int i = 0; i <= ranks_below; ++i) {
    passes.input_gradient(0);
    passes.weight_gradient(0);
  }
  for (const int chunk : {1, 0})
    for (int i = 0; i <= rank; ++i) passes.weight_gradient(chunk);
  return passes.take();
}

ActionList dual_pipe_v(const ScheduleSize& size, int rank) {
  Passes passes(size, rank);
  const int ranks_below = size.num_ranks - 1 - rank;
  for (int i = 0; i < 2 * ranks_below; ++i) passes.forward(0);
  for (int i = 0; i <= rank; ++i) {
    passes.forward(0);
    passes.forward(1);
  }
  for (int i = 0; i < ranks_below; ++i) {
    passes.input_gradient(1);
    passes.weight_gradient();
    passes.forward(1);
  }
  for (int i = 0; i < size.num_microbatches - 2 * size.num_ranks + rank + 1; ++i) {
    passes.forward(0);
    passes.backward(1);
    passes.forward(1);
    passes.backward(0);
  }
  for (int i = 0; i < ranks_below; ++i) {
    passes.backward(1);
    passes.forward(1);
    passes.backward(0);
  }
  // The second half of the gradients left splits off weight gradients, which fill the gaps of the last phase.
  for (int i = 0; i <= rank; ++i) {
    for (const int chunk : {1, 0}) {
      if (2 * i + (1 - chunk) > rank) {
        passes.input_gradient(chunk);
      } else {
        passes.backward(chunk);
      }
    }
  }
  for (int i = 0; i < ranks_below; ++i) {
    passes.weight_gradient();
    passes.input_gradient(0);
  }
  while (passes.has_deferred()) passes.weight_gradient();
  return passes.take();
}

}  // namespace tessera::pipeline
