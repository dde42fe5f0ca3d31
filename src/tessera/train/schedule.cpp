#include "tessera/train/schedule.h"

#include <algorithm>
#include <limits>

namespace tessera::train {
namespace {

// The recipe's enumerations and the scheduler's carry the same names; each layer keeps its own.
optim::DecayStyle to_optim(config::DecayStyle style) {
  switch (style) {
    case config::DecayStyle::Constant:
      return optim::DecayStyle::Constant;
    case config::DecayStyle::Cosine:
      return optim::DecayStyle::Cosine;
    case config::DecayStyle::Linear:
      return optim::DecayStyle::Linear;
    case config::DecayStyle::InverseSquareRoot:
      return optim::DecayStyle::InverseSquareRoot;
    case config::DecayStyle::WSD:
      return optim::DecayStyle::WSD;
  }
  TESSERA_ASSERT(false, "no such decay style");
}
optim::WsdDecayStyle to_optim(config::WsdDecayStyle style) {
  switch (style) {
    case config::WsdDecayStyle::Linear:
      return optim::WsdDecayStyle::Linear;
    case config::WsdDecayStyle::Cosine:
      return optim::WsdDecayStyle::Cosine;
    case config::WsdDecayStyle::Exponential:
      return optim::WsdDecayStyle::Exponential;
    case config::WsdDecayStyle::MinusSqrt:
      return optim::WsdDecayStyle::MinusSqrt;
  }
  TESSERA_ASSERT(false, "no such decay style");
}
optim::WeightDecayStyle to_optim(config::WeightDecayStyle style) {
  switch (style) {
    case config::WeightDecayStyle::Constant:
      return optim::WeightDecayStyle::Constant;
    case config::WeightDecayStyle::Linear:
      return optim::WeightDecayStyle::Linear;
    case config::WeightDecayStyle::Cosine:
      return optim::WeightDecayStyle::Cosine;
  }
  TESSERA_ASSERT(false, "no such decay style");
}

/// Samples of an epoch, where the recipe alone decides: random rows that are not packed.
std::optional<std::int64_t> samples_per_epoch(const config::Recipe& recipe) {
  if (!recipe.dataset || recipe.packed_sequence.packed_sequence_size > 0) return std::nullopt;
  const config::DatasetKind kind = recipe.dataset->kind;
  const bool random = kind == config::DatasetKind::MockIterable || kind == config::DatasetKind::MockUnpacked;
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

optim::Schedule make_schedule(const config::LoadedRecipe& loaded, std::int64_t steps, ProblemList& problems) {
  const config::Recipe& recipe = loaded.recipe;
  if (!recipe.lr_scheduler) return optim::constant_schedule(recipe.optimizer.lr, recipe.optimizer.weight_decay);
  const config::LrScheduler& s = *recipe.lr_scheduler;
  optim::ScheduleRequest request{.decay_style = to_optim(s.lr_decay_style),
                                 .warmup_steps = s.lr_warmup_steps,
                                 .decay_steps = s.lr_decay_steps,
                                 .init_lr = s.init_lr,
                                 .max_lr = s.max_lr,
                                 .min_lr = s.min_lr,
                                 .wsd_decay_steps = s.wsd_decay_steps,
                                 .start_weight_decay = s.start_wd,
                                 .end_weight_decay = s.end_wd,
                                 .weight_decay_steps = s.wd_incr_steps,
                                 .weight_decay_style = to_optim(s.wd_incr_style)};
  if (s.lr_wsd_decay_style) request.wsd_decay_style = to_optim(*s.lr_wsd_decay_style);
  return optim::make_schedule(request, recipe.optimizer.lr, recipe.optimizer.weight_decay, steps, config::where(loaded.tree, "lr_scheduler"),
                              problems);
}

}  // namespace tessera::train
