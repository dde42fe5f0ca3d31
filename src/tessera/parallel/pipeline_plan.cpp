#include "tessera/parallel/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/model/families/families.h"
#include "tessera/model/parameter_table.h"

namespace tessera::parallel {
namespace {

bool has_stages(const model::ModelSpec& spec) {
  const model::Family* family = model::find_family(spec.model_type);
  return family != nullptr && family->stages == model::StagePlan::Units;
}

}  // namespace

std::optional<PipelinePlan> plan_pipeline(const config::Distributed& distributed, const model::ModelSpec& spec, int num_microbatches,
                                          const config::Locate& locate, ProblemList& problems) {
  const std::int64_t num_ranks = distributed.sizes.pp_size;
  if (num_ranks == 1) return std::nullopt;
  const auto at = [&](std::string_view key) { return locate ? locate(key) : std::string(); };
  if (!has_stages(spec)) {
    problems.add({at("distributed.pp_size"), fmt::format("distributed.pp_size: {} with a {} model", num_ranks, spec.model_type),
                  "a model family declares how it is cut into stages; this one does not", "use 1"});
    return std::nullopt;
  }
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
