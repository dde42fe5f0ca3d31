#include "tessera/parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include "tessera/config/pipeline_schedule.h"
#include "tessera/core/text.h"
#include "tessera/parallel/pipeline/action_lists.h"

namespace tessera::pipeline {
namespace {

struct Description {
  ActionList (*list)(const ScheduleSize& size, int rank);
  int fewest_stages, most_stages;  ///< of a rank; 0: no limit
  bool is_v = false;
};

Description describe(ScheduleName name) {
  switch (name) {
    case ScheduleName::GPipe:
      return {gpipe, 1, 1};
    case ScheduleName::OneFOneB:
      return {one_forward_one_backward, 1, 1};
    case ScheduleName::Interleaved1F1B:
      return {interleaved_one_forward_one_backward, 2, 0};
    case ScheduleName::LoopedBFS:
      return {looped_breadth_first, 2, 0};
    case ScheduleName::InterleavedZeroBubble:
      return {interleaved_zero_bubble, 1, 0};
    case ScheduleName::ZBVZeroBubble:
      return {zero_bubble_v, 2, 2, true};
    case ScheduleName::DualPipeV:
      return {dual_pipe_v, 2, 2, true};
  }
  TESSERA_ASSERT(false, "every schedule is described above");
}

void check_stages(ScheduleName name, const ScheduleSize& size, const std::string& where, ProblemList& problems) {
  const Description description = describe(name);
  const std::string what = fmt::format("{} with {} on each rank", config::to_string(name), plural(size.stages_per_rank, "stage"));
  if (description.most_stages > 0 && size.stages_per_rank != description.most_stages) {
    const bool one = description.most_stages == 1;
    problems.add({where, what, fmt::format("it has exactly {} on each rank", plural(description.most_stages, "stage")),
                  one ? "use interleaved_1f1b for several stages on a rank, or one stage" : "use two stages on each rank, or 1f1b for one"});
  } else if (size.stages_per_rank < description.fewest_stages) {
    problems.add({where, what, fmt::format("an interleaved schedule has at least {} stages on each rank", description.fewest_stages),
                  fmt::format("use {}, which is the same with one stage, or more stages", name == ScheduleName::LoopedBFS ? "gpipe" : "1f1b")});
  }
}

/// Numbers of microbatches near `wanted` that `fits`, for a remedy: "6 or 8".
template <class Fits>
std::string near_numbers(int wanted, Fits fits) {
  int below = wanted - 1, above = wanted + 1;
  while (below > 0 && !fits(below)) --below;
  while (!fits(above)) ++above;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

/// Interleaving takes rounds of equal numbers of microbatches through the chunks.
void check_rounds(ScheduleName name, const ScheduleSize& size, const std::string& where, ProblemList& problems) {
  const auto fits = [&](int microbatches) {
    return microbatches % microbatches_per_round({size.num_ranks, microbatches, size.stages_per_rank}) == 0;
  };
  if (size.stages_per_rank == 1 || fits(size.num_microbatches)) return;
  const int rounds = size.num_microbatches / size.num_ranks;
  problems.add({where, fmt::format("{} with {} microbatches on {} ranks", config::to_string(name), size.num_microbatches, size.num_ranks),
                fmt::format("microbatches go through the stages of a rank in rounds of equal size, here {} ({} / {} rounded down)", rounds,
                            size.num_microbatches, size.num_ranks),
                fmt::format("use {} microbatches, or another schedule", near_numbers(size.num_microbatches, fits))});
}

}  // namespace

int default_stages_per_rank(ScheduleName name) { return describe(name).most_stages == 1 ? 1 : 2; }

void check_size(ScheduleName name, const ScheduleSize& size, const std::string& where, ProblemList& problems) {
  TESSERA_ASSERT(size.num_ranks >= 1 && size.num_microbatches >= 1 && size.stages_per_rank >= 1, "sizes are positive");
  check_stages(name, size, where, problems);
  if (name == ScheduleName::Interleaved1F1B || name == ScheduleName::InterleavedZeroBubble) check_rounds(name, size, where, problems);
  if (name == ScheduleName::DualPipeV && size.num_microbatches < 2 * size.num_ranks)
    problems.add({where, fmt::format("dualpipev with {} microbatches on {} ranks", size.num_microbatches, size.num_ranks),
                  "microbatches in both directions fill the pipeline when there are at least twice as many as ranks",
                  fmt::format("use {} microbatches or more, or zbv_zero_bubble, which takes any number", 2 * size.num_ranks)});
}

StagePlacement placement(ScheduleName name, const ScheduleSize& size) {
  return describe(name).is_v ? v_placement(size.num_ranks) : loop_placement(size.num_ranks, size.stages_per_rank);
}

Schedule make_schedule(ScheduleName name, const ScheduleSize& size) {
  ProblemList problems;
  check_size(name, size, "", problems);
  problems.throw_if_any();
  Schedule schedule;
  for (int rank = 0; rank < size.num_ranks; ++rank) schedule.push_back(describe(name).list(size, rank));
  return schedule;
}

Schedule forward_schedule(const StagePlacement& placement, int num_microbatches) {
  Schedule schedule(static_cast<std::size_t>(placement.num_ranks));
  for (int stage = 0; stage < placement.num_stages(); ++stage)
    for (int microbatch = 0; microbatch < num_microbatches; ++microbatch)
      schedule[static_cast<std::size_t>(placement.rank_of[static_cast<std::size_t>(stage)])].push_back({stage, ActionKind::Forward, microbatch});
  return schedule;
}

}  // namespace tessera::pipeline
