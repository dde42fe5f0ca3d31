#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/config/sections/training.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

/// Learning rate and weight decay as pure functions of the step, after NeMo AutoModel's OptimizerParamScheduler.
namespace tessera::optim {

using config::DecayStyle;
using config::WeightDecayStyle;
using config::WsdDecayStyle;

/// Everything the two functions need, with no defaults left to derive. Counts are optimizer steps.
struct LrSchedule {
  DecayStyle decay_style = DecayStyle::Constant;
  double init_lr = 0.0;  ///< where the warm-up starts
  double max_lr = 0.0;
  double min_lr = 0.0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;  ///< the warm-up included
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::Exponential;
  std::int64_t wsd_decay_steps = 0;  ///< length of the final decay; 0 unless the style is WSD
  double start_weight_decay = 0.0;
  double end_weight_decay = 0.0;
  std::int64_t weight_decay_steps = 1;
  WeightDecayStyle weight_decay_style = WeightDecayStyle::Constant;

  bool operator==(const LrSchedule&) const = default;
};

/// What a recipe may leave out.
struct LrScheduleRequest {
  DecayStyle decay_style = DecayStyle::Cosine;
  std::optional<std::int64_t> warmup_steps = {};  ///< min(1000, total_steps / 10)
  std::optional<std::int64_t> decay_steps = {};   ///< total_steps
  std::optional<double> init_lr = {};             ///< 0.1 × learning_rate
  std::optional<double> max_lr = {};              ///< learning_rate
  std::optional<double> min_lr = {};              ///< 0.01 × learning_rate
  std::optional<std::int64_t> wsd_decay_steps = {};
  std::optional<WsdDecayStyle> wsd_decay_style = {};
  std::optional<double> start_weight_decay = {};        ///< weight_decay
  std::optional<double> end_weight_decay = {};          ///< weight_decay
  std::optional<std::int64_t> weight_decay_steps = {};  ///< total_steps
  WeightDecayStyle weight_decay_style = WeightDecayStyle::Constant;
};

/// Fills in the defaults from the optimizer's own learning rate and weight decay. Adds to `problems`, each at `where`, what cannot be: min_lr above
/// max_lr, init_lr above max_lr, a warm-up not shorter than the decay, WSD without its decay, a constant weight decay that changes.
LrSchedule make_lr_schedule(const LrScheduleRequest& request, double learning_rate, double weight_decay, std::int64_t total_steps,
                            const std::string& where, ProblemList& problems);
/// The same learning rate and weight decay in every step: a recipe without a scheduler.
LrSchedule constant_schedule(double learning_rate, double weight_decay);

/// For the step that follows `completed_steps` optimizer steps (0 for the first).
double learning_rate(const LrSchedule& schedule, std::int64_t completed_steps);
double weight_decay(const LrSchedule& schedule, std::int64_t completed_steps);

/// The scheduler's part of a checkpoint.
Json to_json(const LrSchedule& schedule);
/// Reads it back; UserError at `where` when something is missing or unknown.
LrSchedule schedule_from_json(const Json& json, const std::string& where);

/// Whose values a resumed run takes: the checkpoint's (the default), the recipe's (override_opt_param_scheduler), or both must agree
/// (use_checkpoint_opt_param_scheduler: false).
enum class ResumeSchedule : std::uint8_t { Checkpoint, Recipe, MustAgree };
/// UserError at `where` naming every value that differs when they must agree; a note does where the checkpoint's are taken.
LrSchedule resume_schedule(const LrSchedule& recipe, const LrSchedule& checkpoint, ResumeSchedule policy, const std::string& where);

}  // namespace tessera::optim
