#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/config/recipe.h"
#include "tessera/core/terminal.h"
#include "tessera/train/metrics.h"
#include "tessera/train/tensorboard.h"
#include "tessera/train/validation.h"

namespace tessera::train {

/// Where a run's metrics go: the terminal, JSON lines, TensorBoard.
class Reporter {
 public:
  /// `speaks`: true on one rank; the others report nothing. UserError when the directory for log files cannot be made.
  Reporter(const config::Recipe& recipe, bool speaks, std::int64_t first_step, std::int64_t total_steps);

  void step(const StepMetrics& metrics);
  void validation(const std::string& name, const StepMetrics& at, const ValidationResult& result);
  /// A line of its own, above the progress bar; nothing where logging.level asks for warnings only.
  void say(const std::string& text);

 private:
  bool speaks_;
  bool says_lines_;
  std::optional<ProgressBar> bar_;
  std::int64_t tensorboard_every_;
  std::optional<JsonLines> training_, validation_;
  std::optional<TensorBoardWriter> tensorboard_;
};

}  // namespace tessera::train
