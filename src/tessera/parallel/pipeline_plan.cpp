#include "tessera/parallel/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/model/parameter_table.h"

namespace tessera::parallel {

std::optional<PipelinePlan> plan_pipeline(const config::Distributed& distributed, const model::ModelSpec& spec, int num_microbatches,
                                          const config::Locate& locate, ProblemList& problems) {
  const std::int64_t num_ranks = distributed.sizes.pp_size;
  if (num_ranks == 1) return std::nullopt;
  const auto at = [&](std::string_view key) { return locate ? locate(key) : std::string(); };
  const config::Pipeline pipeline = distributed.pipeline.value_or(config::Pipeline{});
  const auto stages = pipeline::plan_stages(pipeline, static_cast<int>(num_ranks), model::parameter_table(spec), at, problems);
  if (!stages) return std::nullopt;
  const auto schedule = pipeline::plan_schedule(pipeline, *stages, num_microbatches, at, problems);
  if (!schedule) return std::nullopt;
  return PipelinePlan{*stages, *schedule, num_microbatches};
}

std::vector<std::string> describe(const pipeline::StagePlan& stages, const model::ModelSpec& spec) {
  std::vector<std::string> lines;
  for (int rank = 0; rank < stages.placement.num_ranks; ++rank) {
    std::vector<std::string> parts;
    for (const int stage : stages.placement.stages_of(rank)) {
      const model::UnitRange& units = stages.units[static_cast<std::size_t>(stage)];
      parts.push_back(fmt::format("stage {}: {}", stage, pipeline::describe(units, static_cast<int>(spec.num_layers()) + 2)));
    }
    lines.push_back(fmt::format("pp {}  {}", rank, fmt::join(parts, "; ")));
  }
  return lines;
}

}  // namespace tessera::parallel
