#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/config/recipe.h"
#include "tessera/data/loader.h"
#include "tessera/optim/lr_schedule.h"
#include "tessera/optim/optimizer.h"
#include "tessera/parallel/causal_lm.h"
#include "tessera/train/model_plan.h"
#include "tessera/train/routing.h"

namespace tessera::train {

/// The parameters that freeze_config and moe_overrides leave untouched; empty when there are none.
model::ParameterPredicate frozen_parameters(const config::Recipe& recipe);

struct ValidationSet {
  std::string name;
  std::unique_ptr<data::Loader> loader;
};

/// Everything one rank of a run trains with.
struct TrainingObjects {
  ModelPlan plan;
  parallel::DistributedSetup setup;
  parallel::CausalLM model;
  std::unique_ptr<ExpertTraining> experts;  ///< null: nothing is counted
  std::unique_ptr<data::Loader> loader;
  std::vector<ValidationSet> validation;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::LrSchedule schedule;
  std::int64_t total_steps = 0;
  checkpoint::ModelSignature signature;
  checkpoint::ModelFiles model_files;  ///< at rank 0, which writes them
};

/// Refuses what `check` lists, reads data and model, and builds the rest from them. UserError for everything that prevents that. Every rank of
/// the backend, which must outlive the objects, calls it.
TrainingObjects build_objects(const config::LoadedRecipe& recipe, const Environment& environment, comm::Backend& backend);

}  // namespace tessera::train
