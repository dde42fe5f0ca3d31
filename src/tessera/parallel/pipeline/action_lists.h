#pragma once

#include "tessera/parallel/pipeline/schedule.h"

/// The lists of one rank, as make_schedule puts them together. Sizes keep the rules of check_size.
namespace tessera::pipeline {

/// Microbatches that an interleaved schedule takes through all chunks before it turns to the next ones: num_ranks, or more where that leaves a
/// remainder; all of them when there are fewer than two rounds.
int microbatches_per_round(const ScheduleSize& size);

ActionList gpipe(const ScheduleSize& size, int rank);
ActionList one_forward_one_backward(const ScheduleSize& size, int rank);
ActionList interleaved_one_forward_one_backward(const ScheduleSize& size, int rank);
ActionList looped_breadth_first(const ScheduleSize& size, int rank);
ActionList interleaved_zero_bubble(const ScheduleSize& size, int rank);
ActionList zero_bubble_v(const ScheduleSize& size, int rank);
ActionList dual_pipe_v(const ScheduleSize& size, int rank);

}  // namespace tessera::pipeline
