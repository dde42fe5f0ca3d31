#include "tessera/parallel/pipeline/lowering.h"

#include <functional>
#include <map>

namespace tessera::pipeline {
namespace {

/// Actions to add around each computing one.
using Around = std::function<void(const Action& action, std::size_t index, ActionList& added)>;

/// `before`'s actions go one computing action earlier than the one they belong to (at the start: right before it), `after`'s right behind it.
ActionList insert(const ActionList& actions, const Around& before, const Around& after) {
  ActionList result;
  std::size_t early = 0;  // where the last computing action stands in `result`
  for (std::size_t index = 0; index < actions.size(); ++index) {
    const Action& action = actions[index];
    if (!is_compute(action.kind)) {
      result.push_back(action);
      continue;
    }
    ActionList added;
    before(action, index, added);
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(early), added.begin(), added.end());
    early = result.size();
    result.push_back(action);
    after(action, index, result);
  }
  return result;
}

void nothing(const Action&, std::size_t, ActionList&) {}

/// The index in `actions` of the first and last action of each stage that `matches`.
struct Ends {
  std::size_t first, last;
};
std::map<int, Ends> ends_of(const ActionList& actions, bool (*matches)(ActionKind)) {
  std::map<int, Ends> ends;
  for (std::size_t index = 0; index < actions.size(); ++index)
    if (matches(actions[index].kind)) ends.try_emplace(actions[index].stage, Ends{index, index}).first->second.last = index;
  return ends;
}

}  // namespace

Schedule add_messages(const Schedule& schedule, const StagePlacement& placement) {
  // Whether the neighbour exists and is on another rank.
  const auto is_elsewhere = [&](int stage, int neighbour) {
    if (neighbour < 0 || neighbour >= placement.num_stages()) return false;
    return placement.rank_of[static_cast<std::size_t>(stage)] != placement.rank_of[static_cast<std::size_t>(neighbour)];
  };
  const auto receive = [&](const Action& action, std::size_t, ActionList& added) {
    const auto [stage, kind, microbatch] = action;
    if (kind == ActionKind::Forward && is_elsewhere(stage, stage - 1)) added.push_back({stage, ActionKind::ReceiveActivation, microbatch});
    if (makes_input_gradient(kind) && is_elsewhere(stage, stage + 1)) added.push_back({stage, ActionKind::ReceiveGradient, microbatch});
  };
  const auto send = [&](const Action& action, std::size_t, ActionList& added) {
    const auto [stage, kind, microbatch] = action;
    if (kind == ActionKind::Forward && is_elsewhere(stage, stage + 1)) added.push_back({stage, ActionKind::SendActivation, microbatch});
    if (makes_input_gradient(kind) && is_elsewhere(stage, stage - 1)) added.push_back({stage, ActionKind::SendGradient, microbatch});
  };
  Schedule result;
  for (const ActionList& actions : schedule) result.push_back(insert(actions, receive, send));
  return result;
}

Schedule add_gather_and_free(const Schedule& schedule) {
  const auto reads_weights = [](ActionKind kind) { return kind == ActionKind::Forward || makes_input_gradient(kind); };
  Schedule result;
  for (const ActionList& actions : schedule) {
    const std::map<int, Ends> ends = ends_of(actions, reads_weights);
    const auto gather = [&](const Action& action, std::size_t index, ActionList& added) {
      if (ends.contains(action.stage) && ends.at(action.stage).first == index) added.push_back({action.stage, ActionKind::Gather});
    };
    const auto free = [&](const Action& action, std::size_t index, ActionList& added) {
      if (ends.contains(action.stage) && ends.at(action.stage).last == index) added.push_back({action.stage, ActionKind::Free});
    };
    result.push_back(insert(actions, gather, free));
  }
  return result;
}

Schedule add_gradient_reduction(const Schedule& schedule) {
  Schedule result;
  for (const ActionList& actions : schedule) {
    const std::map<int, Ends> ends = ends_of(actions, makes_weight_gradient);
    const auto reduce = [&](const Action& action, std::size_t index, ActionList& added) {
      if (ends.contains(action.stage) && ends.at(action.stage).last == index) added.push_back({action.stage, ActionKind::ReduceGradient});
    };
    result.push_back(insert(actions, nothing, reduce));
  }
  return result;
}

Schedule lower(const Schedule& schedule, const StagePlacement& placement) {
  return add_gradient_reduction(add_gather_and_free(add_messages(schedule, placement)));
}

}  // namespace tessera::pipeline
