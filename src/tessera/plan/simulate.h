#pragma once

#include <vector>

#include "tessera/parallel/pipeline/action.h"
#include "tessera/parallel/pipeline/placement.h"

/// What a pipeline schedule would do, without a model and without processes.
namespace tessera::plan {

/// Milliseconds. Every stage costs the same.
struct Costs {
  double forward = 1.0;
  double input_gradient = 1.0;
  double weight_gradient = 1.0;  ///< a B takes input_gradient + weight_gradient
  double communication = 0.0;    ///< from the end of a pass to the arrival of its result on another rank; neither rank computes less for it
};

/// A computing action and when it runs.
struct Span {
  pipeline::Action action;
  double begin = 0.0;
  double end = 0.0;
};

struct RankTimeline {
  std::vector<Span> spans;
  double busy = 0.0;         ///< sum of the spans
  double idle_within = 0.0;  ///< between the rank's first and last action: the bubble that the zero-bubble papers count, since a rank's next step may
                             ///< begin before others have ended
  int peak_activations = 0;  ///< most forward passes (of one stage each) that wait for their B or W at once
};

struct Simulation {
  std::vector<RankTimeline> ranks;
  double step_time = 0.0;

  /// Share of the ranks' time, from the start of the step to its end, in which they compute nothing.
  double bubble_share() const;
  /// The largest of any rank.
  double idle_within() const;
  int peak_activations() const;
};

/// Runs a lowered schedule: ranks execute their lists in order; sends and receives begin at their place in the list and make no rank wait; a pass
/// begins when its inputs are there. Between two ranks activations and gradients are two channels that deliver in the order of sending, and the k-th
/// receive of a channel takes the k-th message.
///
/// This is also the proof that no rank can block. Each rank waits only for what a certain rank will do, and never chooses among several messages, so
/// which actions run in the end does not depend on how long any of them takes: when all run here, all run always. UserError that names, for each rank
/// that is stuck, the action and what it waits for; likewise when a receive would take another message than the one it is for, or a message is never
/// taken.
Simulation simulate(const pipeline::Schedule& lowered, const pipeline::StagePlacement& placement, const Costs& costs = {});

}  // namespace tessera::plan
