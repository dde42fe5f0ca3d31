#pragma once

#include <cstdint>
#include <optional>

#include "tessera/config/recipe.h"
#include "tessera/core/error.h"
#include "tessera/optim/lr_schedule.h"

namespace tessera::train {

/// Steps of a run whose epochs have `steps_per_epoch`: max_steps or num_epochs of them, whichever ends first; without num_epochs max_steps alone.
std::int64_t total_steps(const config::StepScheduler& scheduler, std::int64_t steps_per_epoch);
/// The most steps that a run can have, as far as the recipe alone decides: max_steps, and the epochs of random data, whose size it gives.
std::optional<std::int64_t> most_steps(const config::Recipe& recipe);

/// The recipe's schedule over `steps` steps. Adds whatever is impossible to `problems`.
optim::LrSchedule make_lr_schedule(const config::LoadedRecipe& loaded, std::int64_t steps, ProblemList& problems);

}  // namespace tessera::train
