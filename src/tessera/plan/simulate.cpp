#include "tessera/plan/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tessera/core/error.h"

namespace tessera::plan {
namespace {

using pipeline::Action;
using pipeline::ActionKind;

constexpr double kNever = -1.0;
constexpr std::size_t kUnposted = static_cast<std::size_t>(-1);

struct Message {
  int stage, microbatch;  ///< of the receiver
  double arrival;
};

/// Messages of one kind from one rank to another.
struct Channel {
  std::vector<Message> sent;
  std::vector<Action> receives;
};

/// One microbatch on one stage.
struct Progress {
  double forward_end = kNever, gradient_end = kNever;                        ///< of F; of I or B
  std::size_t activation_receive = kUnposted, gradient_receive = kUnposted;  ///< positions in their channels
};

int num_microbatches_of(const pipeline::Schedule& schedule) {
  int most = -1;
  for (const pipeline::ActionList& actions : schedule)
    for (const Action& action : actions) most = std::max(most, action.microbatch);
  return most + 1;
}

class Simulator {
 public:
  Simulator(const pipeline::Schedule& schedule, const pipeline::StagePlacement& placement, const Costs& costs)
      : schedule_(schedule),
        placement_(placement),
        costs_(costs),
        num_ranks_(schedule.size()),
        num_microbatches_(num_microbatches_of(schedule)),
        progress_(placement.rank_of.size() * static_cast<std::size_t>(num_microbatches_)),
        channels_(2 * num_ranks_ * num_ranks_),
        next_(num_ranks_, 0),
        now_(num_ranks_, 0.0),
        stored_(num_ranks_, 0) {
    result_.ranks.resize(num_ranks_);
  }

  Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < num_ranks_; ++rank)
        while (next_[rank] < schedule_[rank].size() && execute(rank, schedule_[rank][next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
    }
    report_stuck_ranks();
    report_untaken_messages();
    finish();
    return std::move(result_);
  }

 private:
  /// False when the action has to wait for another rank.
  bool execute(std::size_t rank, const Action& action) {
    switch (action.kind) {
      case ActionKind::SendActivation:
        send(rank, action, {action.stage + 1, ActionKind::ReceiveActivation, action.microbatch});
        return true;
      case ActionKind::SendGradient:
        send(rank, action, {action.stage - 1, ActionKind::ReceiveGradient, action.microbatch});
        return true;
      case ActionKind::ReceiveActivation:
        progress(action).activation_receive = post(channel(rank_of(action.stage - 1), rank, action.kind), action);
        return true;
      case ActionKind::ReceiveGradient:
        progress(action).gradient_receive = post(channel(rank_of(action.stage + 1), rank, action.kind), action);
        return true;
      case ActionKind::Gather:
      case ActionKind::Free:
      case ActionKind::ReduceGradient:
        return true;
      default:
        return compute(rank, action);
    }
  }

  bool compute(std::size_t rank, const Action& action) {
    const std::optional<double> ready = inputs_ready(rank, action);
    if (!ready) return false;
    const double begin = std::max(now_[rank], *ready), end = begin + cost(action.kind);
    now_[rank] = end;
    RankTimeline& timeline = result_.ranks[rank];
    timeline.spans.push_back({action, begin, end});
    if (action.kind == ActionKind::Forward) {
      progress(action).forward_end = end;
      timeline.peak_activations = std::max(timeline.peak_activations, ++stored_[rank]);
    }
    if (makes_input_gradient(action.kind)) progress(action).gradient_end = end;
    if (makes_weight_gradient(action.kind)) --stored_[rank];
    return true;
  }

  /// When everything that a pass needs is on its rank; nothing when that is not known yet.
  std::optional<double> inputs_ready(std::size_t rank, const Action& action) {
    const Progress& own = progress(action);
    if (action.kind == ActionKind::Forward) {
      if (action.stage == 0) return 0.0;
      const Action previous{action.stage - 1, action.kind, action.microbatch};
      if (rank_of(previous.stage) == rank) return known(progress(previous).forward_end);
      return arrival(channel(rank_of(previous.stage), rank, ActionKind::ReceiveActivation), own.activation_receive, action);
    }
    if (own.forward_end == kNever) return std::nullopt;
    if (action.kind == ActionKind::WeightGradient) return known(own.gradient_end);
    if (action.stage + 1 == placement_.num_stages()) return own.forward_end;
    const Action next{action.stage + 1, action.kind, action.microbatch};
    if (rank_of(next.stage) == rank) return known(progress(next).gradient_end);
    return arrival(channel(rank_of(next.stage), rank, ActionKind::ReceiveGradient), own.gradient_receive, action);
  }

  static std::optional<double> known(double time) { return time == kNever ? std::nullopt : std::optional(time); }

  static std::optional<double> arrival(const Channel& channel, std::size_t receive, const Action& action) {
    if (receive == kUnposted || receive >= channel.sent.size()) return std::nullopt;
    const Message& message = channel.sent[receive];
    if (message.stage != action.stage || message.microbatch != action.microbatch)
      throw UserError({"",
                       fmt::format("{} would get what was sent for stage {}, microbatch {}", to_string(action), message.stage, message.microbatch),
                       "messages between two ranks arrive in the order they are sent", "let both ranks take the microbatches in the same order"});
    return message.arrival;
  }

  void send(std::size_t rank, const Action& action, const Action& receive) {
    const Progress& own = progress(action);
    const double done = action.kind == ActionKind::SendActivation ? own.forward_end : own.gradient_end;
    if (done == kNever) throw UserError({"", to_string(action) + " comes before the pass whose result it sends", "", "move it after that pass"});
    channel(rank, rank_of(receive.stage), receive.kind).sent.push_back({receive.stage, receive.microbatch, now_[rank] + costs_.communication});
  }

  static std::size_t post(Channel& channel, const Action& action) {
    channel.receives.push_back(action);
    return channel.receives.size() - 1;
  }

  double cost(ActionKind kind) const {
    if (kind == ActionKind::Forward) return costs_.forward;
    return (makes_input_gradient(kind) ? costs_.input_gradient : 0.0) + (makes_weight_gradient(kind) ? costs_.weight_gradient : 0.0);
  }
  std::size_t rank_of(int stage) const { return static_cast<std::size_t>(placement_.rank_of.at(static_cast<std::size_t>(stage))); }
  Progress& progress(const Action& action) {
    return progress_.at(static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(num_microbatches_) +
                        static_cast<std::size_t>(action.microbatch));
  }
  Channel& channel(std::size_t from, std::size_t to, ActionKind receive) {
    return channels_[2 * (from * num_ranks_ + to) + (receive == ActionKind::ReceiveActivation ? 0 : 1)];
  }

  std::string waited_for(std::size_t rank, const Action& action) {
    const Progress& own = progress(action);
    if (action.kind != ActionKind::Forward && own.forward_end == kNever)
      return fmt::format("{}F{}, which comes later on this rank", action.stage, action.microbatch);
    if (action.kind == ActionKind::WeightGradient) return fmt::format("{}I{}, which comes later on this rank", action.stage, action.microbatch);
    const bool forward = action.kind == ActionKind::Forward;
    const int neighbour = forward ? action.stage - 1 : action.stage + 1;
    return fmt::format("the {} of stage {} for microbatch {} on rank {}{}", forward ? "output" : "input gradient", neighbour, action.microbatch,
                       rank_of(neighbour), rank_of(neighbour) == rank ? ", this one" : "");
  }

  void report_stuck_ranks() {
    ProblemList problems;
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
      if (next_[rank] == schedule_[rank].size()) continue;
      const Action& action = schedule_[rank][next_[rank]];
      problems.add({"",
                    fmt::format("rank {} waits forever in {} (action {} of {}) for {}", rank, to_string(action), next_[rank] + 1,
                                schedule_[rank].size(), waited_for(rank, action)),
                    "every rank runs its actions in order", "put what it waits for before what waits"});
    }
    problems.throw_if_any();
  }

  void report_untaken_messages() const {
    ProblemList problems;
    for (const Channel& channel : channels_)
      for (std::size_t i = channel.receives.size(); i < channel.sent.size(); ++i)
        problems.add({"",
                      fmt::format("nobody receives what is sent to stage {} for microbatch {}", channel.sent[i].stage, channel.sent[i].microbatch),
                      "every message is taken", "add the action that takes it, or leave out the one that sends it"});
    problems.throw_if_any();
  }

  void finish() {
    for (RankTimeline& timeline : result_.ranks) {
      if (timeline.spans.empty()) continue;
      for (const Span& span : timeline.spans) timeline.busy += span.end - span.begin;
      const double end = timeline.spans.back().end;
      timeline.idle_within = end - timeline.spans.front().begin - timeline.busy;
      result_.step_time = std::max(result_.step_time, end);
    }
  }

  const pipeline::Schedule& schedule_;
  const pipeline::StagePlacement& placement_;
  const Costs costs_;
  std::size_t num_ranks_;
  int num_microbatches_;
  std::vector<Progress> progress_;  ///< by stage, then microbatch
  std::vector<Channel> channels_;   ///< by sender, receiver, kind
  std::vector<std::size_t> next_;   ///< by rank: the action to run
  std::vector<double> now_;
  std::vector<int> stored_;
  Simulation result_;
};

}  // namespace

double Simulation::bubble_share() const {
  double busy = 0;
  for (const RankTimeline& rank : ranks) busy += rank.busy;
  return step_time == 0 ? 0 : 1 - busy / (step_time * static_cast<double>(ranks.size()));
}

double Simulation::idle_within() const {
  double most = 0;
  for (const RankTimeline& rank : ranks) most = std::max(most, rank.idle_within);
  return most;
}

int Simulation::peak_activations() const {
  int most = 0;
  for (const RankTimeline& rank : ranks) most = std::max(most, rank.peak_activations);
  return most;
}

Simulation simulate(const pipeline::Schedule& lowered, const pipeline::StagePlacement& placement, const Costs& costs) {
  return Simulator(lowered, placement, costs).run();
}

}  // namespace tessera::plan
