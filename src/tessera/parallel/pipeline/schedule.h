#pragma once

#include <string>

#include "tessera/config/sections/distributed.h"
#include "tessera/core/error.h"
#include "tessera/parallel/pipeline/action.h"
#include "tessera/parallel/pipeline/placement.h"

/// Schedules as pure functions. docs/pipeline.md says what each is, what it costs and where it comes from.
namespace tessera::pipeline {

using ScheduleName = config::PipelineSchedule;

struct ScheduleSize {
  int num_ranks = 1;
  int num_microbatches = 1;
  int stages_per_rank = 1;
};

/// Stages of each rank unless something else asks for a number: 1 for gpipe and 1f1b, 2 for the others.
int default_stages_per_rank(ScheduleName name);

/// Adds a problem with a remedy for every rule that the size breaks: how many stages a rank can have, how many microbatches the schedule needs, and
/// of what their number is a multiple.
void check_size(ScheduleName name, const ScheduleSize& size, const std::string& where, ProblemList& problems);

/// A V for zbv_zero_bubble and dualpipev, a loop for the others.
StagePlacement placement(ScheduleName name, const ScheduleSize& size);

/// Each rank's F, I, W and B in order; without communication. UserError when the size breaks a rule.
Schedule make_schedule(ScheduleName name, const ScheduleSize& size);

/// Forward passes alone, a rank's stages one after another, each of all microbatches: for evaluation, wherever the stages are.
Schedule forward_schedule(const StagePlacement& placement, int num_microbatches);

/// Adds a problem for everything that is wrong with a schedule from elsewhere (a file): stages that are missing, on another rank than in `placement`,
/// or next to a gap in numbers; passes that are missing, twice, or before what they need on the same rank; actions that are not F, I, W or B.
/// Whether ranks wait for each other in a circle is the simulator's question (plan/simulate.h).
void check_schedule(const Schedule& schedule, const StagePlacement& placement, int num_microbatches, const std::string& where, ProblemList& problems);

}  // namespace tessera::pipeline
