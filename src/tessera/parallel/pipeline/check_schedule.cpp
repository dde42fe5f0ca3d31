#include <fmt/format.h>

#include "tessera/parallel/pipeline/schedule.h"

namespace tessera::pipeline {
namespace {

/// What has been seen of one microbatch on one stage.
struct Seen {
  bool forward = false, input_gradient = false, weight_gradient = false;
};

class Checker {
 public:
  Checker(const StagePlacement& placement, int num_microbatches, const std::string& where, ProblemList& problems)
      : placement_(placement),
        num_microbatches_(num_microbatches),
        where_(where),
        problems_(problems),
        seen_(placement.rank_of.size() * static_cast<std::size_t>(num_microbatches)) {}

  void check(int rank, const Action& action) {
    const std::string text = fmt::format("{} on rank {}", to_string(action), rank);
    if (!is_compute(action.kind))
      return add(text, "a schedule holds F, I, W and B; everything else is added by this program", "leave the action out");
    if (action.stage >= placement_.num_stages() || action.microbatch >= num_microbatches_)
      return add(text, fmt::format("there are {} stages and {} microbatches, numbered from 0", placement_.num_stages(), num_microbatches_),
                 "correct its numbers, or leave the action out");
    const int rank_of_stage = placement_.rank_of[static_cast<std::size_t>(action.stage)];
    if (rank_of_stage != rank) return add(text, fmt::format("stage {} is on rank {}", action.stage, rank_of_stage), "keep a stage on one rank");
    note(action, text);
  }

  void check_completeness() {
    for (int stage = 0; stage < placement_.num_stages(); ++stage)
      for (int microbatch = 0; microbatch < num_microbatches_; ++microbatch) {
        const Seen& seen = seen_of(stage, microbatch);
        if (!seen.forward) missing({stage, ActionKind::Forward, microbatch});
        if (!seen.input_gradient) missing({stage, seen.weight_gradient ? ActionKind::InputGradient : ActionKind::Backward, microbatch});
        if (seen.input_gradient && !seen.weight_gradient) missing({stage, ActionKind::WeightGradient, microbatch});
      }
  }

 private:
  Seen& seen_of(int stage, int microbatch) {
    return seen_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(num_microbatches_) + static_cast<std::size_t>(microbatch)];
  }

  void note(const Action& action, const std::string& text) {
    Seen& seen = seen_of(action.stage, action.microbatch);
    const bool input = makes_input_gradient(action.kind), weight = makes_weight_gradient(action.kind);
    const bool forward = action.kind == ActionKind::Forward;
    if ((forward && seen.forward) || (input && seen.input_gradient) || (weight && seen.weight_gradient))
      add(text, "every pass runs once (B is I and W)", "leave the second one out");
    if (!forward && !seen.forward) add(text, "backward passes follow the forward pass", "move it after the F");
    if (weight && !input && !seen.input_gradient) add(text, "a weight gradient follows the input gradient", "move it after the I");
    seen.forward |= forward;
    seen.input_gradient |= input;
    seen.weight_gradient |= weight;
  }

  void missing(const Action& action) { add(to_string(action) + " is missing", "each microbatch passes each stage forward and backward", "add it"); }
  void add(const std::string& what, const std::string& rule, const std::string& fix) { problems_.add({where_, what, rule, fix}); }

  const StagePlacement& placement_;
  int num_microbatches_;
  const std::string& where_;
  ProblemList& problems_;
  std::vector<Seen> seen_;
};

}  // namespace

void check_schedule(const Schedule& schedule, const StagePlacement& placement, int num_microbatches, const std::string& where,
                    ProblemList& problems) {
  if (static_cast<int>(schedule.size()) != placement.num_ranks) {
    problems.add({where, fmt::format("{} lists of actions for {} ranks", schedule.size(), placement.num_ranks), "every rank has a list",
                  "add or remove lists"});
    return;
  }
  Checker checker(placement, num_microbatches, where, problems);
  for (int rank = 0; rank < placement.num_ranks; ++rank)
    for (const Action& action : schedule[static_cast<std::size_t>(rank)]) checker.check(rank, action);
  checker.check_completeness();
}

}  // namespace tessera::pipeline
