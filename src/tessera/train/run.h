#pragma once

#include <filesystem>
#include <optional>

#include "tessera/comm/communicator.h"
#include "tessera/config/recipe.h"

namespace tessera::train {

/// What a finished (or interrupted) run reports.
struct RunSummary {
  std::int64_t first_step = 0;  ///< completed steps when the run began: not 0 after a resume
  std::int64_t last_step = 0;
  std::int64_t total_steps = 0;
  double first_loss = 0.0;
  double last_loss = 0.0;
  std::optional<double> validation_loss;  ///< the last of the first validation set
  double tokens_per_second = 0.0;         ///< over all steps of this run, validation and saving left out
  double peak_memory_gib = 0.0;
  double seconds_to_first_step = 0.0;               ///< from the call of train() until the first step began
  std::optional<std::filesystem::path> checkpoint;  ///< the last one written
  bool interrupted = false;                         ///< by SIGINT or SIGTERM, after saving
};

/// Trains as the recipe says: reads model and data, resumes if asked, steps, logs, validates, saves. SIGINT and SIGTERM end the current step, save
/// and return. UserError before training for what the user can fix, Failure for what breaks on the way.
///
/// Every rank of the backend calls it and gets the same summary (memory is this rank's); only rank 0 writes log lines and metrics.
/// `trace`: also record what every rank computes and communicates, and write it there at the end (trace.h).
RunSummary train(const config::LoadedRecipe& recipe, const Environment& environment, comm::Backend& backend,
                 const std::optional<std::filesystem::path>& trace = std::nullopt);

}  // namespace tessera::train
