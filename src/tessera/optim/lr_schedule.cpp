#include "tessera/optim/lr_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/core/logging.h"

namespace tessera::optim {
namespace {

// The names recipes use; a checkpoint keeps them too.
constexpr std::array<std::pair<DecayStyle, std::string_view>, 5> kDecayStyles = {{{DecayStyle::Constant, "constant"},
                                                                                  {DecayStyle::Linear, "linear"},
                                                                                  {DecayStyle::Cosine, "cosine"},
                                                                                  {DecayStyle::InverseSquareRoot, "inverse-square-root"},
                                                                                  {DecayStyle::WSD, "WSD"}}};
constexpr std::array<std::pair<WsdDecayStyle, std::string_view>, 4> kWsdDecayStyles = {{{WsdDecayStyle::Linear, "linear"},
                                                                                        {WsdDecayStyle::Cosine, "cosine"},
                                                                                        {WsdDecayStyle::Exponential, "exponential"},
                                                                                        {WsdDecayStyle::MinusSqrt, "minus_sqrt"}}};
constexpr std::array<std::pair<WeightDecayStyle, std::string_view>, 3> kWeightDecayStyles = {
    {{WeightDecayStyle::Constant, "constant"}, {WeightDecayStyle::Linear, "linear"}, {WeightDecayStyle::Cosine, "cosine"}}};

constexpr const char* kOtherCheckpoint = "name another checkpoint: `tessera checkpoint list` shows the complete ones";

template <class Names, class Value>
std::string_view name_of(const Names& names, Value value) {
  return std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.first == value; })->second;
}

template <class Names>
auto value_of(const Names& names, const Json& json, const char* key, const std::string& where) {
  const std::string name = json.at(key).template get<std::string>();
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.second == name; });
  if (found == names.end()) throw UserError(Problem{where, fmt::format("{}: unknown style \"{}\"", key, name), "", kOtherCheckpoint});
  return found->first;
}

double half_cosine(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

double wsd_coefficient(const LrSchedule& schedule, std::int64_t step) {
  const std::int64_t anneal_start = schedule.decay_steps - schedule.wsd_decay_steps;
  if (step <= anneal_start) return 1.0;
  const double ratio = static_cast<double>(step - anneal_start) / static_cast<double>(schedule.wsd_decay_steps);
  switch (schedule.wsd_decay_style) {
    case WsdDecayStyle::Linear:
      return 1.0 - ratio;
    case WsdDecayStyle::Cosine:
      return half_cosine(ratio);
    case WsdDecayStyle::Exponential:
      return 2.0 * std::pow(0.5, ratio) - 1.0;
    case WsdDecayStyle::MinusSqrt:
      return 1.0 - std::sqrt(ratio);
  }
  return 1.0;
}

// Share of max_lr − min_lr that is left after the warm-up.
double decay_coefficient(const LrSchedule& schedule, std::int64_t step) {
  if (schedule.decay_style == DecayStyle::WSD) return wsd_coefficient(schedule, step);
  const double ratio = static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(schedule.decay_steps - schedule.warmup_steps);
  return schedule.decay_style == DecayStyle::Linear ? 1.0 - ratio : half_cosine(ratio);
}

template <class Value>
void refuse_negative(const char* key, Value value, const std::string& where, ProblemList& problems) {
  if (value < 0)
    problems.add({where, fmt::format("lr_scheduler.{} is negative ({})", key, value), "", fmt::format("set lr_scheduler.{} to 0 or more", key)});
}

void check_learning_rates(const LrSchedule& schedule, const std::string& where, ProblemList& problems) {
  refuse_negative("min_lr", schedule.min_lr, where, problems);
  if (schedule.min_lr > schedule.max_lr)
    problems.add({where, fmt::format("lr_scheduler.min_lr ({}) is above max_lr ({})", schedule.min_lr, schedule.max_lr),
                  "the learning rate decays to min_lr", "lower it, or raise optimizer.lr (or lr_scheduler.max_lr, where it is given)"});
  if (schedule.init_lr > schedule.max_lr)
    problems.add({where, fmt::format("lr_scheduler.init_lr ({}) is above max_lr ({})", schedule.init_lr, schedule.max_lr),
                  "the warm-up rises to max_lr", "lower it, or raise optimizer.lr (or lr_scheduler.max_lr, where it is given)"});
}

void check_steps(const LrSchedule& schedule, const std::string& where, ProblemList& problems) {
  refuse_negative("lr_warmup_steps", schedule.warmup_steps, where, problems);
  if (schedule.warmup_steps >= schedule.decay_steps)
    problems.add({where,
                  fmt::format("lr_scheduler.lr_warmup_steps ({}) is not less than lr_decay_steps ({})", schedule.warmup_steps, schedule.decay_steps),
                  "lr_decay_steps counts the warm-up too", "lower it, or raise lr_scheduler.lr_decay_steps"});
  if (schedule.decay_style == DecayStyle::WSD && (schedule.wsd_decay_steps < 1 || schedule.wsd_decay_steps > schedule.decay_steps))
    problems.add(
        {where,
         fmt::format("lr_scheduler.wsd_decay_steps ({}) is not between 1 and lr_decay_steps ({})", schedule.wsd_decay_steps, schedule.decay_steps),
         "the decay is the last part of the schedule", "choose lr_scheduler.wsd_decay_steps between 1 and lr_decay_steps"});
}

void check_weight_decay(const LrSchedule& schedule, const std::string& where, ProblemList& problems) {
  refuse_negative("start_wd", schedule.start_weight_decay, where, problems);
  if (schedule.end_weight_decay < schedule.start_weight_decay)
    problems.add({where, fmt::format("lr_scheduler.end_wd ({}) is below start_wd ({})", schedule.end_weight_decay, schedule.start_weight_decay),
                  "weight decay grows or stays", "raise it, or lower lr_scheduler.start_wd"});
  if (schedule.weight_decay_style == WeightDecayStyle::Constant && schedule.end_weight_decay != schedule.start_weight_decay)
    problems.add({where, fmt::format("lr_scheduler.start_wd ({}) and end_wd ({}) differ", schedule.start_weight_decay, schedule.end_weight_decay),
                  "wd_incr_style constant keeps one value", "set lr_scheduler.wd_incr_style to linear or cosine"});
  if (schedule.weight_decay_style != WeightDecayStyle::Constant && schedule.weight_decay_steps < 1)
    problems.add({where, fmt::format("lr_scheduler.wd_incr_steps is not positive ({})", schedule.weight_decay_steps), "",
                  "set lr_scheduler.wd_incr_steps to 1 or more"});
}

void check_wsd_request(const LrScheduleRequest& request, const std::string& where, ProblemList& problems) {
  if (request.decay_style != DecayStyle::WSD) return;
  if (!request.wsd_decay_steps)
    problems.add({where, "lr_scheduler.lr_decay_style: WSD needs wsd_decay_steps", "",
                  "set lr_scheduler.wsd_decay_steps: how many steps the final decay takes"});
  if (!request.wsd_decay_style)
    problems.add({where, "lr_scheduler.lr_decay_style: WSD needs lr_wsd_decay_style", "",
                  "set lr_scheduler.lr_wsd_decay_style to linear, cosine, exponential or minus_sqrt"});
}

std::vector<std::string> differences_of(const LrSchedule& recipe, const LrSchedule& checkpoint) {
  const Json ours = to_json(recipe), theirs = to_json(checkpoint);
  std::vector<std::string> differences;
  for (const auto& [key, value] : ours.items())
    if (value != theirs.at(key))
      differences.push_back(fmt::format("lr_scheduler.{}: the recipe says {}, the checkpoint {}", key, value.dump(), theirs.at(key).dump()));
  return differences;
}

}  // namespace

LrSchedule make_lr_schedule(const LrScheduleRequest& request, double learning_rate, double weight_decay, std::int64_t total_steps,
                            const std::string& where, ProblemList& problems) {
  LrSchedule schedule;
  schedule.decay_style = request.decay_style;
  schedule.init_lr = request.init_lr.value_or(0.1 * learning_rate);
  schedule.max_lr = request.max_lr.value_or(learning_rate);
  schedule.min_lr = request.min_lr.value_or(0.01 * learning_rate);
  schedule.warmup_steps = request.warmup_steps.value_or(std::min<std::int64_t>(1000, total_steps / 10));
  schedule.decay_steps = request.decay_steps.value_or(total_steps);
  schedule.wsd_decay_steps = request.decay_style == DecayStyle::WSD ? request.wsd_decay_steps.value_or(1) : 0;
  schedule.wsd_decay_style = request.wsd_decay_style.value_or(WsdDecayStyle::Exponential);
  schedule.start_weight_decay = request.start_weight_decay.value_or(weight_decay);
  schedule.end_weight_decay = request.end_weight_decay.value_or(weight_decay);
  schedule.weight_decay_steps = request.weight_decay_steps.value_or(total_steps);
  schedule.weight_decay_style = request.weight_decay_style;
  check_wsd_request(request, where, problems);
  check_learning_rates(schedule, where, problems);
  check_steps(schedule, where, problems);
  check_weight_decay(schedule, where, problems);
  return schedule;
}

LrSchedule constant_schedule(double learning_rate, double weight_decay) {
  LrSchedule schedule;
  schedule.init_lr = schedule.max_lr = schedule.min_lr = learning_rate;
  schedule.start_weight_decay = schedule.end_weight_decay = weight_decay;
  return schedule;
}

double learning_rate(const LrSchedule& schedule, std::int64_t completed_steps) {
  const auto step = static_cast<double>(completed_steps);
  if (schedule.warmup_steps > 0 && completed_steps <= schedule.warmup_steps)
    return schedule.init_lr + (schedule.max_lr - schedule.init_lr) * step / static_cast<double>(schedule.warmup_steps);
  if (schedule.decay_style == DecayStyle::Constant) return schedule.max_lr;
  if (completed_steps > schedule.decay_steps) return schedule.min_lr;
  if (schedule.decay_style == DecayStyle::InverseSquareRoot) {
    const auto warmup = static_cast<double>(std::max<std::int64_t>(schedule.warmup_steps, 1));
    return std::max(schedule.min_lr, schedule.max_lr * std::sqrt(warmup) / std::sqrt(std::max(step, 1.0)));
  }
  return schedule.min_lr + decay_coefficient(schedule, completed_steps) * (schedule.max_lr - schedule.min_lr);
}

double weight_decay(const LrSchedule& schedule, std::int64_t completed_steps) {
  if (schedule.weight_decay_style == WeightDecayStyle::Constant || completed_steps > schedule.weight_decay_steps) return schedule.end_weight_decay;
  const double ratio = static_cast<double>(completed_steps) / static_cast<double>(schedule.weight_decay_steps);
  const double coefficient = schedule.weight_decay_style == WeightDecayStyle::Linear ? ratio : half_cosine(1.0 - ratio);
  return schedule.start_weight_decay + coefficient * (schedule.end_weight_decay - schedule.start_weight_decay);
}

Json to_json(const LrSchedule& schedule) {
  return {{"lr_decay_style", name_of(kDecayStyles, schedule.decay_style)},
          {"init_lr", schedule.init_lr},
          {"max_lr", schedule.max_lr},
          {"min_lr", schedule.min_lr},
          {"lr_warmup_steps", schedule.warmup_steps},
          {"lr_decay_steps", schedule.decay_steps},
          {"lr_wsd_decay_style", name_of(kWsdDecayStyles, schedule.wsd_decay_style)},
          {"wsd_decay_steps", schedule.wsd_decay_steps},
          {"start_wd", schedule.start_weight_decay},
          {"end_wd", schedule.end_weight_decay},
          {"wd_incr_steps", schedule.weight_decay_steps},
          {"wd_incr_style", name_of(kWeightDecayStyles, schedule.weight_decay_style)}};
}

LrSchedule schedule_from_json(const Json& json, const std::string& where) try {
  LrSchedule schedule;
  schedule.decay_style = value_of(kDecayStyles, json, "lr_decay_style", where);
  schedule.init_lr = json.at("init_lr").get<double>();
  schedule.max_lr = json.at("max_lr").get<double>();
  schedule.min_lr = json.at("min_lr").get<double>();
  schedule.warmup_steps = json.at("lr_warmup_steps").get<std::int64_t>();
  schedule.decay_steps = json.at("lr_decay_steps").get<std::int64_t>();
  schedule.wsd_decay_style = value_of(kWsdDecayStyles, json, "lr_wsd_decay_style", where);
  schedule.wsd_decay_steps = json.at("wsd_decay_steps").get<std::int64_t>();
  schedule.start_weight_decay = json.at("start_wd").get<double>();
  schedule.end_weight_decay = json.at("end_wd").get<double>();
  schedule.weight_decay_steps = json.at("wd_incr_steps").get<std::int64_t>();
  schedule.weight_decay_style = value_of(kWeightDecayStyles, json, "wd_incr_style", where);
  return schedule;
} catch (const Json::exception& error) {
  throw UserError(Problem{where, std::string("not a saved schedule: ") + error.what(), "", kOtherCheckpoint});
}

LrSchedule resume_schedule(const LrSchedule& recipe, const LrSchedule& checkpoint, ResumeSchedule policy, const std::string& where) {
  if (policy == ResumeSchedule::Recipe) return recipe;
  const std::vector<std::string> differences = differences_of(recipe, checkpoint);
  if (policy == ResumeSchedule::MustAgree) {
    ProblemList problems;
    for (const std::string& difference : differences)
      problems.add({where, difference, "use_checkpoint_opt_param_scheduler: false requires both to agree",
                    "remove that key to take the checkpoint's, or set override_opt_param_scheduler: true to take the recipe's"});
    problems.throw_if_any();
  } else if (!differences.empty()) {
    log::note("the checkpoint's schedule goes on ({}); lr_scheduler.override_opt_param_scheduler: true takes the recipe's",
              fmt::join(differences, "; "));
  }
  return checkpoint;
}

}  // namespace tessera::optim
