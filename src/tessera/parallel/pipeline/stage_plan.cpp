#include "tessera/parallel/pipeline/stage_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/config/pipeline_schedule.h"
#include "tessera/parallel/pipeline/csv.h"

namespace tessera::pipeline {
namespace {

using config::StageRounding;

class StagePlanner {
 public:
  StagePlanner(const config::Pipeline& pipeline, int num_ranks, const model::ParameterTable& table, const config::Locate& locate,
               ProblemList& problems)
      : pipeline_(pipeline),
        num_ranks_(num_ranks),
        table_(table),
        num_blocks_(static_cast<int>(table.num_units) - 2),
        locate_(locate),
        problems_(problems) {}

  std::optional<StagePlan> plan() {
    const std::size_t before = problems_.problems().size();
    if (pipeline_.layers_per_stage && !pipeline_.module_fqns_per_model_part.empty())
      add("layers_per_stage", "together with module_fqns_per_model_part", "either says which layers a stage holds", "leave one of them out");
    const std::optional<StagePlacement> from_csv = placement_from_csv();
    const std::optional<int> num_stages = from_csv ? from_csv->num_stages() : number_of_stages();
    if (!num_stages || problems_.problems().size() > before) return std::nullopt;
    StagePlan result;
    result.stages_per_rank = *num_stages / num_ranks_;
    result.placement = from_csv ? *from_csv : placement(pipeline_.pp_schedule, {.num_ranks = num_ranks_, .stages_per_rank = result.stages_per_rank});
    result.units = units(*num_stages);
    if (problems_.problems().size() > before) return std::nullopt;
    return result;
  }

 private:
  std::optional<StagePlacement> placement_from_csv() {
    if (pipeline_.pp_schedule_csv.empty()) return std::nullopt;
    const StagePlacement placement = placement_of(read_schedule_csv(pipeline_.pp_schedule_csv));
    if (placement.num_ranks != num_ranks_)
      add("pp_schedule_csv", fmt::format("{} has {} lines for {} ranks", pipeline_.pp_schedule_csv, placement.num_ranks, num_ranks_),
          "every rank of pp has a line", "");
    return placement;
  }

  std::optional<int> number_of_stages() {
    const int parts = static_cast<int>(pipeline_.module_fqns_per_model_part.size());
    if (parts > 0) return multiple_of_ranks("module_fqns_per_model_part", parts, fmt::format("{} stages", parts), "list as many stages as that");
    if (!pipeline_.layers_per_stage) return num_ranks_ * default_stages_per_rank(pipeline_.pp_schedule);
    const int per_stage = static_cast<int>(std::min<std::int64_t>(*pipeline_.layers_per_stage, num_blocks_));
    const int stages = (num_blocks_ + per_stage - 1) / per_stage;
    return multiple_of_ranks("layers_per_stage", rounded(stages), fmt::format("{} of {} layers make {} stages", per_stage, num_blocks_, stages),
                             "choose another number, or set round_virtual_stages_to_pp_multiple to up or down");
  }

  int rounded(int stages) const {
    const int down = stages / num_ranks_ * num_ranks_;
    if (pipeline_.round_virtual_stages_to_pp_multiple == StageRounding::None || down == stages) return stages;
    if (pipeline_.round_virtual_stages_to_pp_multiple == StageRounding::Up) return down + num_ranks_;
    return std::max(down, num_ranks_);
  }

  std::optional<int> multiple_of_ranks(const char* key, int stages, const std::string& what, const std::string& fix) {
    if (stages % num_ranks_ != 0) {
      add(key, what, fmt::format("the number of stages is a multiple of pp_size ({})", num_ranks_), fix);
      return std::nullopt;
    }
    ProblemList rules;  // any number of microbatches that is large enough: they are checked with the schedule
    check_size(pipeline_.pp_schedule, {.num_ranks = num_ranks_, .num_microbatches = 2 * num_ranks_, .stages_per_rank = stages / num_ranks_},
               locate_("distributed.pipeline.pp_schedule"), rules);
    for (const Problem& problem : rules.problems()) problems_.add(problem);
    return stages;
  }

  std::vector<UnitRange> units(int num_stages) {
    if (!pipeline_.module_fqns_per_model_part.empty()) return from_modules(num_stages);
    BlockLimits limits;
    if (pipeline_.layers_per_stage) limits = {num_blocks_ / num_stages, (num_blocks_ + num_stages - 1) / num_stages, false};
    std::vector<UnitRange> split;
    if (limits.fewest > 0) split = split_units(unit_costs(table_), num_stages, limits);
    if (split.empty())
      add("pp_schedule", fmt::format("{} stages of a model with {} layers", num_stages, num_blocks_), "every stage holds a layer, or the head",
          "use fewer ranks, or fewer stages on each");
    return split;
  }

  std::vector<UnitRange> from_modules(int num_stages) {
    const auto& modules = pipeline_.module_fqns_per_model_part;
    if (static_cast<int>(modules.size()) != num_stages) {  // only with a CSV file
      add("module_fqns_per_model_part", fmt::format("{} stages", modules.size()), fmt::format("pp_schedule_csv has {} stages", num_stages),
          fmt::format("list the modules of {} stages, or leave module_fqns_per_model_part out", num_stages));
      return {};
    }
    return split_by_modules(modules, table_, locate_("distributed.pipeline.module_fqns_per_model_part"), problems_);
  }

  void add(const std::string& key, const std::string& what, const std::string& rule, const std::string& fix) {
    problems_.add({locate_("distributed.pipeline." + key), fmt::format("distributed.pipeline.{}: {}", key, what), rule, fix});
  }

  const config::Pipeline& pipeline_;
  int num_ranks_;
  const model::ParameterTable& table_;
  int num_blocks_;
  const config::Locate& locate_;
  ProblemList& problems_;
};

}  // namespace

std::optional<StagePlan> plan_stages(const config::Pipeline& pipeline, int num_ranks, const model::ParameterTable& table,
                                     const config::Locate& locate, ProblemList& problems) {
  return StagePlanner(pipeline, num_ranks, table, locate, problems).plan();
}

std::optional<Schedule> plan_schedule(const config::Pipeline& pipeline, const StagePlan& stages, int num_microbatches, const config::Locate& locate,
                                      ProblemList& problems) {
  ProblemList own;
  std::optional<Schedule> schedule;
  if (!pipeline.pp_schedule_csv.empty()) {
    schedule = read_schedule_csv(pipeline.pp_schedule_csv);
    check_schedule(*schedule, stages.placement, num_microbatches, locate("distributed.pipeline.pp_schedule_csv"), own);
  } else {
    const ScheduleSize size{.num_ranks = stages.placement.num_ranks, .num_microbatches = num_microbatches, .stages_per_rank = stages.stages_per_rank};
    check_size(pipeline.pp_schedule, size, locate("distributed.pipeline.pp_schedule"), own);
    if (own.empty()) schedule = make_schedule(pipeline.pp_schedule, size);
  }
  for (const Problem& problem : own.problems()) problems.add(problem);
  return own.empty() ? schedule : std::nullopt;
}

std::optional<int> num_pipeline_microbatches(const config::Pipeline& pipeline, std::int64_t global_batch_size, std::int64_t local_batch_size,
                                             std::int64_t dp_size, const config::Locate& locate, ProblemList& problems) {
  if (local_batch_size % pipeline.pp_microbatch_size == 0) return static_cast<int>(global_batch_size / (pipeline.pp_microbatch_size * dp_size));
  problems.add({locate("distributed.pipeline.pp_microbatch_size"),
                fmt::format("distributed.pipeline.pp_microbatch_size: {} does not divide local_batch_size ({})", pipeline.pp_microbatch_size,
                            local_batch_size),
                "local batches are cut into whole microbatches", "use a divisor of local_batch_size; 1 always is"});
  return std::nullopt;
}

}  // namespace tessera::pipeline
