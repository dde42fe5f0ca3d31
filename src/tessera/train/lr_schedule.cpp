#include "tessera/train/lr_schedule.h"

#include <algorithm>
#include <limits>

namespace tessera::train {
namespace {

/// Samples of an epoch, where the recipe alone decides: random rows that are not packed.
std::optional<std::int64_t> samples_per_epoch(const config::Recipe& recipe) {
  if (!recipe.dataset || recipe.packed_sequence.packed_sequence_size > 0) return std::nullopt;
  const config::DatasetKind kind = recipe.dataset->kind;
  const bool random = config::is_mock(kind) && kind != config::DatasetKind::MockPacked;
  return random ? std::optional(recipe.dataset->num_samples) : std::nullopt;
}

/// The greatest number instead of an overflow.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

}  // namespace

std::int64_t total_steps(const config::StepScheduler& scheduler, std::int64_t steps_per_epoch) {
  if (scheduler.max_steps && !scheduler.num_epochs) return *scheduler.max_steps;
  const std::int64_t by_epochs = product(scheduler.num_epochs.value_or(config::kDefaultNumEpochs), steps_per_epoch);
  return scheduler.max_steps ? std::min(*scheduler.max_steps, by_epochs) : by_epochs;
}

std::optional<std::int64_t> most_steps(const config::Recipe& recipe) {
  const std::int64_t global = recipe.step_scheduler.global_batch_size;
  const auto samples = samples_per_epoch(recipe);
  return samples ? std::optional(total_steps(recipe.step_scheduler, (*samples - 1) / global + 1)) : recipe.step_scheduler.max_steps;
}

optim::LrSchedule make_lr_schedule(const config::LoadedRecipe& loaded, std::int64_t steps, ProblemList& problems) {
  const config::Recipe& recipe = loaded.recipe;
  if (!recipe.lr_scheduler) return optim::constant_schedule(recipe.optimizer.lr, recipe.optimizer.weight_decay);
  const config::LrScheduler& s = *recipe.lr_scheduler;
  const optim::LrScheduleRequest request{.decay_style = s.lr_decay_style,
                                         .warmup_steps = s.lr_warmup_steps,
                                         .decay_steps = s.lr_decay_steps,
                                         .init_lr = s.init_lr,
                                         .max_lr = s.max_lr,
                                         .min_lr = s.min_lr,
                                         .wsd_decay_steps = s.wsd_decay_steps,
                                         .wsd_decay_style = s.lr_wsd_decay_style,
                                         .start_weight_decay = s.start_wd,
                                         .end_weight_decay = s.end_wd,
                                         .weight_decay_steps = s.wd_incr_steps,
                                         .weight_decay_style = s.wd_incr_style};
  return optim::make_lr_schedule(request, recipe.optimizer.lr, recipe.optimizer.weight_decay, steps, config::where(loaded.tree, "lr_scheduler"),
                                 problems);
}

}  // namespace tessera::train
