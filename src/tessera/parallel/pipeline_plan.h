#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/config/parallelism.h"
#include "tessera/core/error.h"
#include "tessera/model/spec.h"
#include "tessera/parallel/pipeline/stage_plan.h"

namespace tessera::parallel {

/// How a model lies over the ranks of pp, and what they do in an optimizer step.
struct PipelinePlan {
  pipeline::StagePlan stages;
  pipeline::Schedule schedule;  ///< computing actions of one step
  int num_microbatches = 1;     ///< of it
};

/// What `distributed` asks for; nothing where pp_size is 1 or a rule is broken, which becomes a problem. Defaults where it has no pipeline section.
std::optional<PipelinePlan> plan_pipeline(const config::Distributed& distributed, const model::ModelSpec& spec, int num_microbatches,
                                          const config::Locate& locate, ProblemList& problems);

/// A line for each rank: "pp 0  stage 0: embedding, layers 0-3; stage 4: layer 12".
std::vector<std::string> describe(const pipeline::StagePlan& stages, const model::ModelSpec& spec);

}  // namespace tessera::parallel
