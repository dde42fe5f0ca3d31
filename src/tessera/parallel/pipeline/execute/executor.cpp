#include "tessera/parallel/pipeline/execute/executor.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/logging.h"

namespace tessera::pipeline {
namespace {

/// Ranks that wait for each other do not notice at the same moment; the first to give up ends them all.
constexpr std::chrono::seconds kTimeForOthersToSpeak{2};

/// Of one stage and microbatch.
using Key = std::pair<int, int>;

/// A tensor that is here, or on its way.
struct Arrival {
  Action receive;
  at::Tensor tensor;
  comm::Work work;
};

/// Activations, which go to the next stage, or gradients, which go to the one before.
struct Direction {
  comm::Communicator& channel;
  int step;                        ///< from a stage to the one it gives to
  std::map<Key, Arrival> arrived;  ///< by the stage and microbatch that take it
  std::map<Key, at::Tensor> made;  ///< by those that gave it: not sent yet
};

class Executor {
 public:
  Executor(const StagePlacement& placement, const Channels& channels, const Stages& stages)
      : placement_(placement), stages_(stages), activations_{channels.activations, 1, {}, {}}, gradients_{channels.gradients, -1, {}, {}} {}

  void run(const ActionList& actions) {
    for (const Action& action : actions) run(action);
    for (Sent& sent : sends_) wait(sent.work, sent.action, sent.peer);
    TESSERA_ASSERT(activations_.arrived.empty() && gradients_.arrived.empty() && activations_.made.empty() && gradients_.made.empty(),
                   "everything that is made is taken");
  }

 private:
  struct Sent {
    Action action;
    int peer;
    comm::Work work;
  };

  void run(const Action& action) {
    Stage& stage = *stages_.at(action.stage);
    switch (action.kind) {
      case ActionKind::Forward:
        return give(activations_, action, stage.forward(action.microbatch, take(activations_, action)));
      case ActionKind::InputGradient:
      case ActionKind::Backward:
        return give(gradients_, action, stage.backward(action.microbatch, take(gradients_, action), action.kind == ActionKind::InputGradient));
      case ActionKind::WeightGradient:
        return stage.weight_gradients(action.microbatch);
      case ActionKind::SendActivation:
        return send(activations_, action);
      case ActionKind::SendGradient:
        return send(gradients_, action);
      case ActionKind::ReceiveActivation:
        return receive(activations_, action, stage);
      case ActionKind::ReceiveGradient:
        return receive(gradients_, action, stage);
      case ActionKind::Gather:
        return stage.gather();
      case ActionKind::Free:
        return stage.free();
      case ActionKind::ReduceGradient:
        return stage.reduce_gradients();
    }
  }

  bool exists(int stage) const { return stage >= 0 && stage < placement_.num_stages(); }
  int rank_of(int stage) const { return placement_.rank_of[static_cast<std::size_t>(stage)]; }

  void receive(Direction& direction, const Action& action, const Stage& stage) {
    const at::Tensor tensor = stage.message(action.microbatch);
    direction.arrived[{action.stage, action.microbatch}] = {action, tensor,
                                                            direction.channel.receive(tensor, rank_of(action.stage - direction.step))};
  }

  at::Tensor take(Direction& direction, const Action& action) {
    const int from = action.stage - direction.step;
    if (!exists(from)) return {};
    auto node = direction.arrived.extract({action.stage, action.microbatch});
    TESSERA_ASSERT(!node.empty(), "a pass comes after what it needs");
    Arrival& arrival = node.mapped();
    wait(arrival.work, arrival.receive, rank_of(from));
    return std::move(arrival.tensor);
  }

  void give(Direction& direction, const Action& action, at::Tensor tensor) {
    const int to = action.stage + direction.step;
    if (!exists(to)) return;
    if (rank_of(to) == rank_of(action.stage))
      direction.arrived[{to, action.microbatch}] = {action, std::move(tensor), {}};
    else
      direction.made[{action.stage, action.microbatch}] = std::move(tensor);
  }

  void send(Direction& direction, const Action& action) {
    auto node = direction.made.extract({action.stage, action.microbatch});
    TESSERA_ASSERT(!node.empty(), "a message comes after the pass that makes it");
    const int peer = rank_of(action.stage + direction.step);
    sends_.push_back({action, peer, direction.channel.send(node.mapped(), peer)});
    while (!sends_.empty() && sends_.front().work.done()) {
      wait(sends_.front().work, sends_.front().action, sends_.front().peer);
      sends_.pop_front();
    }
  }

  void wait(comm::Work& work, const Action& action, int peer) try { work.wait(); } catch (const Failure& failure) {
    const auto global = [&](int rank) { return activations_.channel.members()[static_cast<std::size_t>(rank)]; };
    const Problem& why = failure.problem();
    const std::string what =
        fmt::format("pipeline: rank {} waits for {} ({} rank {})", global(activations_.channel.rank()), to_string(action),
                    action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGradient ? "to" : "from", global(peer));
    log::line(std::string_view(what));
    std::this_thread::sleep_for(kTimeForOthersToSpeak);
    throw Failure({why.where, what + ": " + why.what, why.rule, why.fix});
  }

  const StagePlacement& placement_;
  const Stages& stages_;
  Direction activations_, gradients_;
  std::deque<Sent> sends_;  ///< under way, oldest first
};

}  // namespace

void execute(const ActionList& actions, const StagePlacement& placement, const Channels& channels, const Stages& stages) {
  Executor(placement, channels, stages).run(actions);
}

}  // namespace tessera::pipeline
