#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/config/parallelism.h"
#include "tessera/parallel/pipeline/schedule.h"
#include "tessera/parallel/pipeline/stage_split.h"

/// From a recipe's `distributed.pipeline` to stages and a schedule: every rule is checked here, before anything is allocated. Problems say what to
/// change; `locate` gives their place in the recipe.
namespace tessera::pipeline {

struct StagePlan {
  StagePlacement placement;
  std::vector<UnitRange> units;  ///< by stage
  int stages_per_rank = 1;
};

/// Stages of `num_ranks` ranks: as many as `pp_schedule_csv` or `module_fqns_per_model_part` lists, or of `layers_per_stage` blocks each (evenly
/// spread, their number rounded to a multiple of the ranks where `round_virtual_stages_to_pp_multiple` says so), or the schedule's own number, split
/// by cost. Nothing when a rule is broken. Reads the CSV file: UserError when it is unreadable.
std::optional<StagePlan> plan_stages(const config::Pipeline& pipeline, int num_ranks, const model::ParameterTable& table,
                                     const config::Locate& locate, ProblemList& problems);

/// The actions of a step of `num_microbatches`; `pp_schedule_csv` must be for that number. Nothing when a rule is broken.
std::optional<Schedule> plan_schedule(const config::Pipeline& pipeline, const StagePlan& stages, int num_microbatches, const config::Locate& locate,
                                      ProblemList& problems);

/// Microbatches of a whole optimizer step at one data-parallel rank: global_batch_size / (pp_microbatch_size · dp_size). Nothing when
/// pp_microbatch_size does not divide local_batch_size. global_batch_size is a multiple of local_batch_size · dp_size (config::validate_batch_sizes).
std::optional<int> num_pipeline_microbatches(const config::Pipeline& pipeline, std::int64_t global_batch_size, std::int64_t local_batch_size,
                                             std::int64_t dp_size, const config::Locate& locate, ProblemList& problems);

}  // namespace tessera::pipeline
