#include "tessera/train/reporter.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "tessera/core/error.h"
#include "tessera/core/logging.h"

namespace tessera::train {

Reporter::Reporter(const config::Recipe& recipe, bool speaks, std::int64_t first_step, std::int64_t total_steps)
    : speaks_(speaks),
      says_lines_(speaks && recipe.logging.level == log::Level::Info),
      tensorboard_every_(recipe.step_scheduler.log_remote_every_steps) {
  if (!speaks_) return;
  bar_.emplace("training", static_cast<std::uint64_t>(total_steps));
  const std::string directory = !recipe.logging.directory.empty() ? recipe.logging.directory
                                : recipe.checkpoint.enabled       ? recipe.checkpoint.checkpoint_dir
                                                                  : std::string();
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw UserError({directory, "cannot create the directory for log files: " + error.message(), "", "choose another logging.directory"});
  training_.emplace(std::filesystem::path(directory) / "training.jsonl", first_step);
  validation_.emplace(std::filesystem::path(directory) / "validation.jsonl", first_step);
  if (recipe.logging.tensorboard) tensorboard_.emplace(std::filesystem::path(directory) / "tensorboard");
}

void Reporter::step(const StepMetrics& metrics) {
  if (!speaks_) return;
  say(log_line(metrics));
  if (training_) training_->write(to_json(metrics));
  if (tensorboard_ && metrics.step % tensorboard_every_ == 0) {
    std::map<std::string, double> scalars = {{"loss", metrics.loss},
                                             {"grad_norm", metrics.gradient_norm},
                                             {"lr", metrics.learning_rate},
                                             {"mem", metrics.memory_gib},
                                             {"tps", metrics.tokens_per_second}};
    scalars.insert(metrics.routing.begin(), metrics.routing.end());
    tensorboard_->write(metrics.step, scalars);
  }
  bar_->update(static_cast<std::uint64_t>(metrics.step), fmt::format("loss {:.4f}", metrics.loss));
}

void Reporter::validation(const std::string& name, const StepMetrics& at, const ValidationResult& result) {
  say(fmt::format("validation {} | step {} | epoch {} | loss {:.4f} | num_label_tokens {}", name, at.step, at.epoch, result.loss,
                  result.num_label_tokens));
  if (validation_)
    validation_->write(
        {{"step", at.step}, {"epoch", at.epoch}, {"name", name}, {"val_loss", result.loss}, {"num_label_tokens", result.num_label_tokens}});
  if (tensorboard_) tensorboard_->write(at.step, {{"val_loss/" + name, result.loss}});
}

void Reporter::say(const std::string& text) {
  if (!says_lines_) return;
  bar_->clear();
  log::line(std::string_view(text));
}

}  // namespace tessera::train
